#pragma once

#include <map>
#include <string>

#include "ps/base/retry.h"
#include "ps/coordinator/servers/handover_desk.h"
#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

/// Revocation notices: those that the job has planned and those that a person gives by psctl.
///
/// The worker is told by Drain, again and again until it says that it drains. When the grace is
/// over and it still takes part, the fleet kills it: its machine is gone. Each seat has at most one
/// notice.
class NoticeDesk {
 public:
  NoticeDesk(Job* job, HandoverDesk* handovers) : job_(job), handovers_(handovers) {}

  /// A person's notice, to a worker that takes part or to a server.
  void On(const Call& call, const proto::NoticeRequest& message);
  /// A planned one. A worker that was started and has not joined is told when it has.
  void Give(WorkerId seat, Duration grace, const Call& call);
  /// The fleet is to be smaller, so the worker leaves: no revocation. Requires: a member has the
  /// seat.
  Duration Release(WorkerId seat, Duration grace, const Call& call);
  /// A planned kill, which nobody is told of. It survives the coordinator's own end.
  void Kill(WorkerId seat, const Call& call);
  /// Tells those who have not heard, and has those killed whose grace is over.
  void OnTick(const Call& call);

  /// The notices in the job's state go on; what is left of each grace begins now.
  void Resume(TimePoint now);

 private:
  /// What this process does about a planned end.
  struct Pending {
    RetryTimer retry;        // the worker is told again
    bool is_killed = false;  // the fleet was asked to
  };

  /// Gives the seat its notice, or makes that shorter. Returns what is left of the grace. Requires:
  /// `member` has the seat.
  Duration GiveTo(Member* member, TimePoint due, const Call& call);
  void Tell(const Member& member, const proto::KillRecord& kill, const Call& call) const;
  /// False when nothing is left to do about it.
  bool Advance(WorkerId seat, const Call& call);

  TimePoint DueOf(const proto::KillRecord& kill) const { return job_->started_at + kill.due; }

  std::string WhyNobodyIsIn(WorkerId seat) const;

  Job* const job_;
  HandoverDesk* const handovers_;
  std::map<WorkerId, Pending> pending_;  // of the job's kills
};

}  // namespace ps::coordinator
