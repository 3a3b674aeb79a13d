#pragma once

#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"
#include "psctl/runs/fleet_command.h"

namespace ps::psctl {

/// `psctl scale --dry-run`: what the fleet does now, and what it would do after the changes: speed,
/// cost and bottleneck, and time and money to the job's goal when it has one. Ends with a newline.
/// Errors: as the coordinator's for changes that it would refuse; kNotFound where there is no
/// profile, which says how to make one.
Result<std::string> PreviewScale(
    const ScaleCommand& command,
    const proto::JobStatus& status,
    const proto::JobConfig& config,
    const std::string& today,
    size_t width_max);

}  // namespace ps::psctl
