#pragma once

#include <string>

#include "ps/coordinator/state/job.h"
#include "ps/coordinator/workers/lease_desk.h"

namespace ps::coordinator {

/// Who is gone: drained, lost, stuck or replaced, and what becomes of their steps.
///
/// A worker is gone when every shard has acknowledged a membership that does not list it: only then
/// do its leases go back, because only then can no late push of it be applied any more. What it had
/// done is counted exactly: a step counts when it is complete on all shards.
class DepartureDesk {
 public:
  DepartureDesk(Job* job, LeaseDesk* leases) : job_(job), leases_(leases) {}

  void On(const Call& call, const proto::Goodbye& message);

  /// Fences a member. Requires: it is one.
  void Remove(Incarnation incarnation, LeaveKind kind, const std::string& reason, const Call& call);
  /// The same for one that did not say goodbye; what that is called depends on what it was told.
  /// One that had counted no step has failed, too, when its seat's workers were lost so before:
  /// Seats::kFruitlessMax.
  void RemoveLost(Incarnation incarnation, const std::string& reason, const Call& call);
  /// The same for one that ended by itself, with an error or too early. It failed when it had
  /// counted no step, or is the job's program, and unless it was to leave; else it is lost like any
  /// other. One that had counted a step is replaced like one that is lost. Requires: it is a
  /// member.
  void RemoveFailed(Incarnation incarnation, const std::string& reason, const Call& call);
  /// The same for one that has told that it can't go on: it failed, whatever it had counted, unless
  /// it was to leave. Requires: it is a member.
  void RemoveRefused(Incarnation incarnation, const std::string& reason, const Call& call);
  /// Resolves departures that every shard has answered for, and forgets what nobody needs.
  void Settle(const Call& call);

 private:
  bool MayGo(Incarnation incarnation) const;
  void NoteFruitless(WorkerId seat, const std::string& reason, const Call& call);
  void Resolve(Departure* departure, TimePoint now);
  uint64_t RoundToKeepFor(Incarnation incarnation) const;

  Job* const job_;
  LeaseDesk* const leases_;
};

}  // namespace ps::coordinator
