#pragma once

#include "ps/proto/job_config.h"
#include "psctl/console.h"
#include "psctl/run_registry.h"

namespace ps::psctl {

/// Runs a job to its end: makes the run directory, holds the coordinator, starts servers and
/// workers, shows progress, and leaves a summary. Ctrl-C ends it cleanly, a second one at once.
/// Returns the exit code. Thread: the process's main thread, whose children the processes are.
int Train(
    const proto::JobConfig& config,
    bool is_json,
    const Console& console,
    const RunRegistry& registry);

}  // namespace ps::psctl
