#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/job/job_config.h"
#include "run/report/job_parts.h"

namespace ps::run {

/// A job as it would run.
struct PreparedJob {
  proto::JobConfig config;
  JobParts parts;
  std::optional<proto::Plan> plan;
  std::string note;  // what the run has otherwise than the plan, for people
};

/// Reads everything that `config`, of `job_path` with the overrides, names. With a plan the fleet
/// is the plan's. Errors: what keeps the job from running, with its place.
Result<PreparedJob> PrepareJob(
    const proto::JobConfig& config,
    const std::string& job_path,
    const std::vector<proto::ConfigOverride>& overrides,
    const std::string& plan_path);

}  // namespace ps::run
