#pragma once

#include <optional>
#include <string>
#include <vector>

#include "psctl/runs/runs_command.h"
#include "run/directory/run_registry.h"
#include "run/report/console.h"

namespace ps::psctl {

/// Removes what ended runs of this folder left, and says what before. It never touches a run that
///  - goes on, or lies outside the registry's folders;
///  - has checkpoints and did not end well: psctl resume goes on from them;
///  - has something that a run which stays names in its config: checkpoints that it was resumed
///    from, a model that it began from;
///  - has checkpoints that a process has open, whoever it is.
/// Whatever a run comes to leave to another one belongs into this list. Models stay unless they
/// are asked for. Returns the exit code.
int PruneRuns(
    const std::vector<RunRow>& rows,
    const RunsCommand& command,
    const run::Console& console,
    const run::RunRegistry& registry);

}  // namespace ps::psctl
