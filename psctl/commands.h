#pragma once

#include <string>
#include <vector>

#include "run/directory/run_registry.h"
#include "run/report/console.h"

namespace ps::psctl {

/// Everything that `psctl ARGUMENTS...` does. Returns the exit code: 0 done, 1 failed, 2 misused.
int RunPsctl(
    const std::vector<std::string>& arguments, const Console& console, const RunRegistry& registry);

}  // namespace ps::psctl
