#pragma once

#include <string>

#include "ps/coordinator/state/job.h"
#include "ps/coordinator/workers/lease_desk.h"

namespace ps::coordinator {

/// train.mode_policy sync_switch_elastic: in bsp a worker that straggles sits out of the rounds. It
/// stays a member, in its seat, and waits for a lease as in a pause: no round waits for it, none of
/// its samples are lost or counted twice, and nobody replaces it. Its last step ends as any other.
/// How quick it is now shows in a round alone, so it is tried again after a while: its next step
/// decides. Each time it sits out for longer. At most half of those who work sit out, so one always
/// works. Who sits out is part of the job's state, by incarnation: a process that takes the place
/// of a lost one begins anew.
class SitOuts {
 public:
  /// For the first time a worker sits out for so long, or for kStepsOut of its steps where that is
  /// longer; each time twice as long as before, kDoublings times at most.
  static constexpr Duration kFirst = std::chrono::seconds(15);
  static constexpr double kStepsOut = 20;  // so trials cost a twentieth of the time at most
  static constexpr uint32_t kDoublings = 4;

  SitOuts(Job* job, LeaseDesk* leases) : job_(job), leases_(leases) {}

  /// In bsp, while the policy lasts: leaves out, tries and takes back. Once a second.
  void Follow(TimePoint now);
  /// Nobody sits out any more.
  void EndAll(const std::string& why);

 private:
  void Restore();
  void JudgeTrials(TimePoint now);
  void KeepHalf();
  void LeaveOutStraggler(TimePoint now);
  void BeginTrials(TimePoint now);
  void LeaveOut(proto::SitOutRecord* record, double slowdown, TimePoint now);
  void TakeBack(proto::SitOutRecord* record, const std::string& why);
  /// How many more of those who work may sit out; below 0: too many do.
  int64_t Room() const;

  Job* const job_;
  LeaseDesk* const leases_;
  TimePoint looked_{};
};

}  // namespace ps::coordinator
