#pragma once

#include <optional>
#include <string>

#include "ps/proto/job_config.h"
#include "ps/proto/plan.h"
#include "psctl/console.h"
#include "psctl/run_registry.h"

namespace ps::psctl {

struct TrainOptions {
  bool is_json = false;             // the summary
  std::string profile_path;         // refined by the run; empty: none
  std::optional<proto::Plan> plan;  // run its fleet instead of the config's, and say how it went
};

/// Runs a job to its end: makes the run directory, holds the coordinator, starts servers and
/// workers, shows progress, and leaves a summary. Ctrl-C ends it cleanly, a second one at once.
/// Returns the exit code. Thread: the process's main thread, whose children the processes are.
int Train(
    const proto::JobConfig& config,
    const TrainOptions& options,
    const Console& console,
    const RunRegistry& registry);

}  // namespace ps::psctl
