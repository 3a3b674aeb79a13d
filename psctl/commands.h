#pragma once

#include <string>
#include <vector>

#include "psctl/console.h"
#include "psctl/run_registry.h"

namespace ps::psctl {

/// Everything that `psctl ARGUMENTS...` does. Returns the exit code: 0 done, 1 failed, 2 misused.
int RunPsctl(
    const std::vector<std::string>& arguments, const Console& console, const RunRegistry& registry);

}  // namespace ps::psctl
