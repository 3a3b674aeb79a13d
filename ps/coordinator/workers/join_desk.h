#pragma once

#include <map>
#include <optional>
#include <string>

#include "ps/coordinator/state/job.h"
#include "ps/coordinator/workers/departure_desk.h"

namespace ps::coordinator {

/// Who takes part: a worker joins when every shard has acknowledged a membership that lists it;
/// only then does it learn its incarnation. A connection is granted at most one incarnation.
class JoinDesk {
 public:
  JoinDesk(Job* job, DepartureDesk* departures) : job_(job), departures_(departures) {}

  /// A worker that has joined is back after a lost connection.
  void OnReconnected(const Call& call, Incarnation incarnation);
  void OnClosed(proto::PeerId peer, Incarnation incarnation, const Call& call);
  void On(const Call& call, const proto::JoinRequest& message);
  /// A worker can't do what it was told: its data or its model are not those of the job.
  void OnRefusal(const Call& call, const proto::Refusal& message);

  /// Whether a worker has the run's data; the first that tells of its own makes it the run's. One
  /// with other data is refused and fenced. True for a message that is not of a member's own. Takes
  /// note of the member's device.
  bool TakesData(const Call& call, const proto::LeaseRequest& message);

  /// The newest process that was started for the seat has ended. What it asked before may come yet.
  void NoteEnd(WorkerId seat, LaunchId launch) { ended_[seat] = launch; }

  /// Somebody asks, and is no member yet.
  bool is_asked() const { return !pending_.empty(); }

  /// Makes members of those who ask, as soon as the shards are set up. Errors: the job can't begin.
  Status AdmitPending(const Call& call);
  /// Answers those whom every shard knows now.
  void Answer(const Call& call);
  /// Lets those go who are not admitted: the run is stopping.
  void SendAway(const Call& call);

 private:
  struct PendingJoin {
    proto::JoinRequest request;
    uint64_t request_id = 0;
  };

  /// The seat of a process whose connection was lost as it joined: kept for it for a while.
  struct KeptSeat {
    proto::ProcessId process;
    TimePoint until{};
  };

  Status MayAsk(const proto::JoinRequest& request, const Call& call) const;
  Status MayTakeSeat(const proto::JoinRequest& request) const;
  void LoseJoining(Incarnation incarnation, const Call& call);
  void FreeKeptSeats(const proto::JoinRequest* request, TimePoint now);
  void Admit(const Call& call, const proto::JoinRequest& request);
  bool HasToWait() const;
  std::optional<WorkerId> ChooseSeat(const proto::JoinRequest& request, const Call& call);
  std::optional<WorkerId> SeatOfReturning(const proto::JoinRequest& request, const Call& call);
  std::optional<WorkerId> FreshSeat();
  void SendReply(const Member& member, const Call& call) const;

  Job* const job_;
  DepartureDesk* const departures_;
  std::map<proto::PeerId, PendingJoin> pending_;  // until the shards can take them
  std::map<WorkerId, KeptSeat> kept_seats_;       // nobody has them, and they are expected
  std::map<WorkerId, LaunchId> ended_;            // the last one of each seat
};

}  // namespace ps::coordinator
