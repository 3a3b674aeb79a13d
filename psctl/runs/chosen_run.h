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
Result<run::RunPaths> ChooseRun(const std::string& job, const run::RunRegistry& registry);

/// ChooseRun for commands that look at runs: the newest ended run of a job that does not run.
/// Errors: as ChooseRun.
Result<run::RunPaths> ChooseAnyRun(const std::string& job, const run::RunRegistry& registry);

/// For Declare: `run_on` the run that the values' `job` chooses.
template <
    typename Values,
    int (*run_on)(const Values& values, const run::RunPaths& run, const run::Console& console)>
int OnRun(const Values& values, const Session& session) {
  const Result<run::RunPaths> run = ChooseRun(values.job, session.registry);
  return run.ok() ? run_on(values, *run, session.console)
                  : run::Fail(session.console, run.status());
}

/// OnRun, with ChooseAnyRun.
template <
    typename Values,
    int (*run_on)(const Values& values, const run::RunPaths& run, const run::Console& console)>
int OnAnyRun(const Values& values, const Session& session) {
  const Result<run::RunPaths> run = ChooseAnyRun(values.job, session.registry);
  return run.ok() ? run_on(values, *run, session.console)
                  : run::Fail(session.console, run.status());
}

/// Prints the summary that an ended run left. Returns the exit code.
int PrintSummary(const run::RunPaths& run, bool is_json, const run::Console& console);

}  // namespace ps::psctl
