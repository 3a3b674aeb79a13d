#pragma once

#include <string>
#include <vector>

#include "ps/proto/job_config.h"
#include "run/directory/run_registry.h"
#include "run/report/console.h"
#include "run/supervisor.h"
#include "run/train.h"

namespace ps::psctl {

struct ResumeCommand {
  std::string from;  // a run, its directory, a checkpoint path, or a place of copies
  std::vector<proto::ConfigOverride> overrides;
  bool is_json = false;
  bool is_detached = false;
  bool is_trusted = false;  // a job in another place may start what it names
};

/// Goes on with a run that was killed: from its journal while its servers live, else from its
/// newest checkpoint that is whole, as a run of its own. Returns the exit code.
int RunResume(const ResumeCommand& command, const Console& console, const RunRegistry& registry);

/// For the process that was to go on with `run`, and could not, for the reason `why`. When its
/// journal is of no use (it fell behind, or is damaged), what is left of the run is ended, and its
/// newest checkpoint is gone on from as a run of its own. Returns the exit code.
int GoOnWithoutJournal(
    SupervisedRun run,
    const Status& why,
    const TrainCommand& command,
    const Console& console,
    const RunRegistry& registry,
    SupervisorLink* link);

}  // namespace ps::psctl
