#pragma once

#include <string>
#include <vector>

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

/// What was typed behind psctl, at least a command, for a script in the run's folder on its head:
/// each word as it is, but for the one that names the run. Pure.
std::string WordsOnHead(const std::vector<std::string>& typed, const std::string& run_word);

}  // namespace ps::psctl
