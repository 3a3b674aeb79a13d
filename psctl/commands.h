#pragma once

#include <string>
#include <vector>

#include "psctl/cli/command.h"
#include "run/directory/run_registry.h"
#include "run/report/console.h"

namespace ps::psctl {

/// All commands of psctl, in the order of its help.
Commands AllCommands();

/// Everything that `psctl ARGUMENTS...` does. Returns the exit code: 0 done, 1 failed, 2 misused.
int RunPsctl(
    const std::vector<std::string>& arguments,
    const run::Console& console,
    const run::RunRegistry& registry);

}  // namespace ps::psctl
