#pragma once

#include <optional>

#include "ps/coordinator/job_state.h"
#include "ps/proto/plan.h"
#include "psctl/job_parts.h"
#include "psctl/run_checkpoints.h"
#include "psctl/train_command.h"

namespace ps::psctl {

/// What a run begins from.
struct TrainStart {
  proto::JobConfig config;
  JobParts parts;
  std::optional<proto::Plan> plan;
  RunCheckpoints checkpoints;                     // of a resumed run
  std::optional<coordinator::ResumeFrom> resume;  // none: from the beginning
};

/// Runs a job to its end and leaves what it came to. Returns the exit code.
int Train(
    TrainStart start,
    const TrainCommand& command,
    const Console& console,
    const RunRegistry& registry);

}  // namespace ps::psctl
