#pragma once

#include <string>

#include "ps/base/status.h"
#include "run/directory/run_directory.h"

namespace ps::run {

/// The name of a run among all that ever rented machines, in characters of a tag: by its folder's
/// name and its token, which outlives its coordinator. Errors: the token can't be read, or is
/// empty, with its file: without it a run that lives would have another name than its machines.
Result<std::string> RentalRunName(const RunPaths& run);

}  // namespace ps::run
