#pragma once

#include <string>
#include <vector>

#include "ps/proto/job/job_config.h"
#include "run/directory/run_registry.h"
#include "run/report/console.h"
#include "run/supervisor.h"
#include "run/train.h"

namespace ps::run {

/// Goes on with a run that was killed: from its journal while its servers live, else from its
/// newest checkpoint that is whole, as a run of its own. Returns the exit code.
int RunResume(const ResumeOrder& order, const Console& console, const RunRegistry& registry);

/// For the process that was to go on with `run`, and could not, for the reason `why`. When its
/// journal is of no use (it fell behind, or is damaged), what is left of the run is ended, and its
/// newest checkpoint is gone on from as a run of its own. Returns the exit code.
int GoOnWithoutJournal(
    SupervisedRun run,
    const Status& why,
    const TrainOrder& order,
    const Console& console,
    const RunRegistry& registry,
    SupervisorLink* link);

}  // namespace ps::run
