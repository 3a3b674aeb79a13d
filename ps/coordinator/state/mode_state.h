#pragma once

#include <cstddef>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

/// Past mode switches kept.
inline constexpr size_t kModeSwitchesMax = 64;

/// The one that a job begins in.
proto::ModeChoice FirstMode(const proto::JobConfig& config);

/// What the steps of a job begin with.
proto::StepsState FirstSteps(const proto::JobConfig& config);

/// Whether a job of this config could have them. Errors: kCorruption.
Status CheckStepsState(const proto::StepsState& steps, const proto::JobConfig& config);

/// Errors: kCorruption.
Status CheckModesState(const proto::ModesState& modes, const proto::MembershipState& membership);

/// Whether the sit-outs of a loaded state make sense. Errors: kCorruption.
Status CheckSitOuts(
    const std::vector<proto::SitOutRecord>& records, const proto::MembershipState& membership);

}  // namespace ps::coordinator
