#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ps/proto/job_config.h"
#include "ps/proto/plan.h"
#include "psctl/console.h"
#include "psctl/job_parts.h"
#include "psctl/run_registry.h"

namespace ps::psctl {

struct TrainCommand {
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
  bool is_json = false;
  bool only_prints_config = false;
  std::string plan_path;     // empty: the job's own fleet
  std::string profile_path;  // refined or made by the run; empty: profile.json if it is there
  bool no_refine = false;    // the profile stays as it is
  bool is_probed = false;    // its workers time passes and exchanges, for its profile
  bool is_detached = false;  // it returns when the run listens, and the run goes on
};

/// A job as it would run.
struct PreparedJob {
  proto::JobConfig config;
  JobParts parts;
  std::optional<proto::Plan> plan;
};

/// Reads everything that `config`, of `job_path` with the overrides, names. With a plan the fleet
/// is the plan's. Errors: what keeps the job from running, with its place.
Result<PreparedJob> PrepareJob(
    const proto::JobConfig& config,
    const std::string& job_path,
    const std::vector<proto::ConfigOverride>& overrides,
    const std::string& plan_path);

/// Runs a job to its end: makes the run directory, holds the coordinator, starts servers and
/// workers, shows progress, and leaves profile and summary; with a plan, runs the plan's fleet
/// instead of the job's and says how it went against the plan. Returns the exit code.
int RunTrain(const TrainCommand& command, const Console& console, const RunRegistry& registry);

}  // namespace ps::psctl
