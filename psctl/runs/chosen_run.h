#pragma once

#include <optional>
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

/// A run on a rented machine (`psctl train --remote`) is there until it is fetched: psctl does
/// there what was typed here. Returns its exit code; nothing: the run is here.
std::optional<int> AskItsHead(
    const run::RunPaths& run, const std::string& run_word, const Session& session);

/// `run_on` a run that was chosen by `run_word`, wherever it is. Returns the exit code.
template <typename F>
int OnChosen(
    const Result<run::RunPaths>& run,
    const std::string& run_word,
    const Session& session,
    const F& run_on) {
  if (!run.ok()) {
    return run::Fail(session.console, run.status());
  }
  const std::optional<int> there = AskItsHead(*run, run_word, session);
  return there ? *there : run_on(*run);
}

/// For Declare: `run_on` the run that the values' `job` chooses.
template <
    typename Values,
    int (*run_on)(const Values& values, const run::RunPaths& run, const run::Console& console)>
int OnRun(const Values& values, const Session& session) {
  return OnChosen(
      ChooseRun(values.job, session.registry), values.job, session, [&](const run::RunPaths& run) {
        return run_on(values, run, session.console);
      });
}

/// OnRun, with ChooseAnyRun.
template <
    typename Values,
    int (*run_on)(const Values& values, const run::RunPaths& run, const run::Console& console)>
int OnAnyRun(const Values& values, const Session& session) {
  return OnChosen(
      ChooseAnyRun(values.job, session.registry),
      values.job,
      session,
      [&](const run::RunPaths& run) { return run_on(values, run, session.console); });
}

/// Prints the summary that an ended run left. Returns the exit code.
int PrintSummary(const run::RunPaths& run, bool is_json, const run::Console& console);

}  // namespace ps::psctl
