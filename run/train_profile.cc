// What a run has measured of itself, which outlives its coordinator.

#include <utility>

#include "provisioner/profile/fingerprint.h"
#include "provisioner/profile/profile_merge.h"
#include "provisioner/profile/run_profiler.h"
#include "ps/base/durable_file.h"
#include "run/planning/planning_files.h"
#include "run/train_run.h"

namespace ps::run {

proto::JobProfile TrainRun::Profile() const {
  proto::JobProfile profile = profiler_.Profile();
  provisioner::LeaveOutOthersCurve(config_, goes_on_, &profile);
  profile.training_fingerprint = provisioner::TrainingFingerprint(config_);
  const bool is_overlapping = config_.train.overlap && config_.train.mode == proto::Mode::kAsync;
  profile.overlap = is_overlapping ? 1 : 0;
  profile.starts = starts_.Starts();
  for (proto::FleetSample& fleet : profile.fleets) {
    fleet.server_hosts = static_cast<int>(config_.servers.count);
    fleet.server_bytes_per_s = double{config_.servers.link_mbit_per_s} * 1e6 / 8;
  }
  return earlier_profile_ ? provisioner::MergeProfiles(*earlier_profile_, profile) : profile;
}

/// A file of another kind, or of another job, is none of ours.
void TrainRun::TakeUpProfile() {
  Result<proto::JobProfile> earlier = LoadProfile(directory_.paths().profile());
  if (earlier.ok() && earlier->job == config_.name) {
    earlier_profile_ = std::move(earlier).value();
  }
}

void TrainRun::KeepProfile() {
  const Status kept =
      WriteFileAtomically(directory_.paths().profile(), proto::PrintProfile(Profile()));
  if (!kept.ok()) {
    log_.Warning("profile_not_kept", {{"why", kept}});
  }
}

}  // namespace ps::run
