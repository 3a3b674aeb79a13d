#pragma once

#include <string>

#include "ps/base/status.h"
#include "psctl/cli/command.h"
#include "run/directory/head_file.h"
#include "run/directory/run_directory.h"

namespace ps::psctl {

/// Has psctl on the run's head do what was typed here, in this terminal, with the run's own name in
/// the place of `run_word`. Returns its exit code. Errors: kUnavailable (the head does not answer),
/// kInvalidArgument (the run is over and not fetched, or did not begin).
Result<int> Forward(
    const run::RunPaths& run,
    const run::HeadFile& head,
    const std::string& run_word,
    const Session& session);

}  // namespace ps::psctl
