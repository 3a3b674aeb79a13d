#pragma once

#include <string>

#include "ps/base/status.h"
#include "psctl/cli/command.h"
#include "run/directory/run_directory.h"
#include "run/directory/run_registry.h"
#include "run/report/console.h"

namespace ps::psctl {

/// The run that a command is about: by its job's name or file, or its directory; the only running
/// one for "". Errors: kNotFound, kInvalidArgument with those there are.
Result<RunPaths> ChooseRun(const std::string& job, const RunRegistry& registry);

/// For Declare: `run_on` the run that the values' `job` chooses.
template <
    typename Values,
    int (*run_on)(const Values& values, const RunPaths& run, const Console& console)>
int OnRun(const Values& values, const Session& session) {
  const Result<RunPaths> run = ChooseRun(values.job, session.registry);
  return run.ok() ? run_on(values, *run, session.console) : Fail(session.console, run.status());
}

/// Prints the summary that an ended run left. Returns the exit code.
int PrintSummary(const RunPaths& run, bool is_json, const Console& console);

}  // namespace ps::psctl
