#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::coordinator {

/// One incarnation that takes part.
struct Member {
  // Constant from the join on.
  Incarnation incarnation;
  Generation joined;  // the membership that first lists it
  int64_t pid = 0;
  std::string host;
  WorkerId seat;
  uint32_t minibatch = 1;
  float slowdown = 1;
  uint32_t threads = 1;

  // Life.
  bool is_admitted = false;  // every shard knows it and JoinReply is out
  bool is_heard = false;     // it has sent something after JoinReply
  bool is_draining = false;  // takes no new leases
  bool is_notified = false;  // a notice was given to it
  bool is_active = true;     // ssp: counts for the staleness bound
  bool has_asked = false;    // for a lease, ever
  bool wants_lease = false;
  proto::WorkerState state = proto::WorkerState::kJoining;
  Generation activated;  // the membership that made it active
  proto::PeerId peer;    // none: the connection is lost, and may come back
  uint64_t join_request_id = 0;
  TimePoint since{};       // the join
  TimePoint last_heard{};  // or when its connection was lost
  TimePoint last_heartbeat{};
  TimePoint last_progress{};  // lease granted to idle hands, or a step or evaluation reported
  proto::WorkerStats stats;
  std::vector<proto::Wait> waits;

  // Work.
  uint64_t lease_request_id = 0;
  TimePoint wants_since{};
  Generation wants_generation;
  LeaseId last_lease;  // newest granted, train or evaluation
  proto::LeaseGrant last_grant;
  Step reported = 0;  // steps 1..reported are counted
  uint64_t samples_counted = 0;
  double step_seconds = 0;  // smoothed; 0: no step yet
  TimePoint last_step{};    // reported, or the first lease's grant
};

enum class LeaveKind : uint8_t {
  kLost,     // no notice
  kDrained,  // a notice, then a goodbye or the end
  kLeft,     // fenced by its own successor, or let go at the end
};

/// An incarnation that was removed: fenced everywhere once every shard has answered.
struct Departure {
  Member member;
  LeaveKind kind = LeaveKind::kLost;
  std::string reason;
  bool has_said_goodbye = false;
  proto::PeerId goodbye_peer;  // GoodbyeReply goes there
  uint64_t goodbye_request_id = 0;
  std::map<ShardId, proto::MembershipAck::Resolved> answers;
  bool is_resolved = false;  // its steps are counted, its leases returned
  // bsp: shards keep what it staged until this round is committed everywhere; 0: nothing staged.
  uint64_t kept_for_round = 0;
  TimePoint since{};
  Generation generation;  // the first that does not list it
};

/// What is remembered of those who are gone, for people.
struct GoneWorker {
  Member member;
  LeaveKind kind = LeaveKind::kLost;
};

/// Who takes part. Invariants (Check): a seat has at most one member; incarnations and generations
/// only grow; an incarnation is a member, a departure, or forgotten for ever.
class Membership {
 public:
  /// `shard_count` shards acknowledge every generation.
  explicit Membership(uint32_t shard_count) : shard_count_(shard_count) {}

  /// A new incarnation in a vacant seat. Requires: the seat has no member.
  Member& Add(WorkerId seat);
  /// Fences a member. The reference is valid until Forget.
  Departure& Remove(Incarnation incarnation, LeaveKind kind, std::string reason, TimePoint now);
  void SetActive(Member* member, bool is_active);

  Member* Find(Incarnation incarnation);
  const Member* Find(Incarnation incarnation) const;
  Member* FindSeat(WorkerId seat);
  Departure* FindDeparture(Incarnation incarnation);

  proto::Membership Message() const;
  /// Takes note of a shard's answer. Returns true when the shard needs nothing more of this
  /// generation. Errors: kInvalidArgument (a generation of the future).
  Status OnAck(const proto::MembershipAck& ack);

  /// Every shard has acknowledged at least this generation.
  bool IsAcknowledged(Generation generation) const;

  Generation AcknowledgedBy(ShardId shard) const;

  bool HasAllAnswers(const Departure& departure) const {
    return departure.answers.size() == shard_count_;
  }

  /// Drops a resolved departure; the next membership lets the shards forget it too.
  void Forget(Incarnation incarnation);

  std::map<Incarnation, Member>& members() { return members_; }

  const std::map<Incarnation, Member>& members() const { return members_; }

  std::map<Incarnation, Departure>& departures() { return departures_; }

  const std::map<Incarnation, Departure>& departures() const { return departures_; }

  const std::deque<GoneWorker>& gone() const { return gone_; }

  Generation generation() const { return generation_; }

  Incarnation incarnation_max() const { return incarnation_max_; }

  Status Check() const;

 private:
  const uint32_t shard_count_;
  Generation generation_;
  Incarnation incarnation_max_;
  std::map<Incarnation, Member> members_;
  std::map<WorkerId, Incarnation> seats_;
  std::map<Incarnation, Departure> departures_;
  std::map<ShardId, Generation> acknowledged_;
  std::deque<GoneWorker> gone_;  // newest last, bounded
};

}  // namespace ps::coordinator
