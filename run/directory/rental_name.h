#pragma once

#include <string>

#include "run/directory/run_directory.h"

namespace ps::run {

/// The name of a run among all that ever rented machines, in characters of a tag: by its folder's
/// name and its token, which outlives its coordinator.
std::string RentalRunName(const RunPaths& run);

}  // namespace ps::run
