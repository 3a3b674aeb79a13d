#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/id_index.h"
#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/coordinator/state/touched_rows.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

using proto::DepartureRecord;
using proto::GoneWorker;
using proto::LeaveKind;
using proto::MemberRecord;
using proto::MembershipState;

/// How many of those who are gone are remembered.
inline constexpr size_t kGoneWorkersMax = 64;

/// A member: its record, and what only this process knows of it.
struct Member {
  const MemberRecord* record = nullptr;
  proto::PeerId peer;  // none: the connection is lost, and may come back
  uint64_t join_request_id = 0;
  proto::WorkerState state = proto::WorkerState::kJoining;
  std::vector<proto::Wait> waits;
  std::vector<proto::Figure> figures;
  std::string ignored_notice;  // as its heartbeats say
  bool wants_lease = false;
  uint64_t lease_request_id = 0;
  TimePoint wants_since{};
  Generation wants_generation;
  TimePoint since{};       // the join
  TimePoint last_heard{};  // or when its connection was lost
  TimePoint last_heartbeat{};
  TimePoint
      last_progress{};       // lease granted to idle hands, a minibatch or step done, an evaluation
  TimePoint last_step{};     // reported, or the first lease's grant
  uint64_t minibatches = 0;  // of local steps, as its last heartbeat said

 private:
  friend class Membership;
  MemberRecord* own_record_ = nullptr;  // `record`, to be changed
};

/// A departure: its record, and who waits for its end.
struct Departure {
  const DepartureRecord* record = nullptr;
  proto::PeerId goodbye_peer;  // GoodbyeReply goes there
  uint64_t goodbye_request_id = 0;
  TimePoint since{};
};

/// Who takes part. Invariants (Check): a seat has at most one member; incarnations and generations
/// only grow; an incarnation is a member, a departure, or forgotten for ever. What follows from an
/// acknowledgement is found without looking at the members.
class Membership {
 public:
  /// Works on `state` and marks what it changes; both outlive it. `shard_count` shards acknowledge
  /// every generation.
  Membership(MembershipState* state, uint32_t shard_count, TouchedRows* touched);

  /// A new incarnation in a vacant seat. Requires: the seat has no member.
  Member& Add(WorkerId seat, const proto::ProcessId& process);
  /// Fences a member. The reference is valid until Forget.
  Departure& Remove(Incarnation incarnation, LeaveKind kind, std::string reason, TimePoint now);
  void SetActive(Member* member, bool is_active);
  /// All members at once, in one generation.
  void SetAllActive(bool is_active);

  /// The record, to be changed, and written after the event.
  MemberRecord& Edit(const Member& member);
  DepartureRecord& Edit(const Departure& departure);
  /// What a worker says of itself again and again is written with the next change of its record:
  /// after a restart it says it again.
  void NoteStats(const Member& member, const proto::WorkerStats& stats);

  Member* Find(Incarnation incarnation) { return member_index_.Find(incarnation); }

  const Member* Find(Incarnation incarnation) const { return member_index_.Find(incarnation); }

  Member* FindSeat(WorkerId seat);
  /// The member that a process of this launch joined as, or null.
  Member* FindLaunch(LaunchId launch);
  /// Age of the job when the process joined first, of one that was a member until it was given up.
  std::optional<Duration> BeganOf(const proto::ProcessId& process) const;
  /// The member that this process joined as and that has no connection, or null.
  Member* FindProcess(const proto::ProcessId& process);
  Departure* FindDeparture(Incarnation incarnation);
  const Departure* FindDeparture(Incarnation incarnation) const;

  /// All of it.
  proto::Membership Message() const;
  /// What has changed since `base`, which the receiver has; all of it when that is less, or when
  /// the changes are not known any more.
  proto::Membership MessageSince(Generation base) const;
  /// Takes note of a shard's answer. Errors: kInvalidArgument (a generation of the future).
  Status OnAck(const proto::MembershipAck& ack);

  /// The shard has forgotten what it knew: it has a new life, and is asked anew for the last steps
  /// of those who are gone.
  void ForgetAcknowledged(ShardId shard);

  /// Every shard has acknowledged at least this generation.
  bool IsAcknowledged(Generation generation) const { return generation <= acknowledged_by_all_; }

  Generation AcknowledgedBy(ShardId shard) const;

  /// Members who are not admitted and whom every shard knows now, each once.
  std::vector<Incarnation> TakeJoined();
  /// Unresolved departures that every shard has answered for, each once.
  std::vector<Incarnation> TakeAnswered();
  /// The departure's steps are counted. It is forgotten once `round` (0: none) is committed
  /// everywhere: a shard drops what a forgotten incarnation staged.
  void Resolve(Departure* departure, uint64_t round);
  /// Who had the seat last took part until everybody was sent away, and does not come back: it was
  /// lost, or drained. Null: it is not known to have been so.
  const GoneWorker* NoteNeverBack(WorkerId seat, const std::string& reason);
  /// Forgets resolved departures kept for rounds up to `round`.
  void ForgetKept(uint64_t round);

  bool has_unresolved() const { return unresolved_ > 0; }

  /// Members of whom a shard does not know yet.
  size_t joining_count() const { return joining_.size(); }

  std::map<Incarnation, Member>& members() { return members_; }

  const std::map<Incarnation, Member>& members() const { return members_; }

  std::map<Incarnation, Departure>& departures() { return departures_; }

  const std::map<Incarnation, Departure>& departures() const { return departures_; }

  const std::deque<GoneWorker>& gone() const { return state_->gone; }

  Generation generation() const { return state_->generation; }

  Incarnation incarnation_max() const { return state_->incarnation_max; }

  Status Check() const;

 private:
  Member& NoteMember(MemberRecord* record);
  void NoteAcknowledgements();
  void NoteChange(Incarnation incarnation);

  MembershipState* const state_;
  TouchedRows* const touched_;
  const uint32_t shard_count_;
  // What follows from the state, kept at hand.
  std::map<Incarnation, Member> members_;
  IdIndex<Incarnation, Member> member_index_;
  std::map<Incarnation, Departure> departures_;
  std::map<WorkerId, Incarnation> seats_;
  std::set<std::pair<proto::ProcessId, Incarnation>> processes_;
  std::set<std::pair<Generation, Incarnation>> joining_;  // by the membership that lists it
  std::set<Incarnation> answered_;
  std::set<std::pair<uint64_t, Incarnation>> kept_;  // by round
  size_t unresolved_ = 0;
  Generation acknowledged_by_all_;
  // Who changed in each generation after changes_since_, and who was forgotten while it was the
  // newest. Each is kept until every shard has acknowledged it, and bounded.
  std::multimap<Generation, Incarnation> changes_;
  std::multimap<Generation, Incarnation> forgotten_;
  Generation changes_since_;
};

/// Whether a membership can be made of a loaded state. Errors: kCorruption naming what is wrong.
Status CheckMembershipState(const MembershipState& state, uint32_t shard_count);

}  // namespace ps::coordinator
