#include "psctl/runs/status_command.h"

#include <fmt/core.h>

#include <optional>
#include <utility>
#include <vector>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "psctl/cli/arguments.h"
#include "psctl/runs/chosen_run.h"
#include "psctl/runs/page_command.h"
#include "psctl/runs/top_command.h"
#include "psctl/view/status_view.h"
#include "psctl/view/why_view.h"
#include "run/directory/control.h"
#include "run/directory/files.h"
#include "run/directory/head_file.h"

namespace ps::psctl {
namespace {

/// A line with the link of the run's page; empty where there is none.
std::string PageText(const run::RunPaths& run) {
  const Result<std::string> link = LinkOf(run);
  return link.ok() ? "\npage: " + Printable(*link) + "\n" : "";
}

int PrintAllRuns(
    const StatusCommand& command, const run::Console& console, const run::RunRegistry& registry) {
  std::vector<proto::JobStatus> jobs;
  size_t failures = 0;
  for (const run::RunningJob& job : registry.Find()) {
    Result<proto::JobStatus> status = run::FetchStatus(job.paths);
    if (status.ok()) {
      jobs.push_back(std::move(status).value());
    } else if (run::FileLock::IsHeld(job.paths.lock())) {  // else it ended just now
      run::Fail(console, status.status());
      ++failures;
    }
  }
  if (command.is_json) {
    JsonWriter json(JsonForm::kOneLine);
    json.BeginList();
    for (const proto::JobStatus& job : jobs) {
      json.Raw(proto::StatusToJson(job));
    }
    json.EndList();
    console.out(std::move(json).Take() + "\n");
  } else if (jobs.size() == 1) {
    console.out(
        RenderStatus(jobs.front(), console.out_width) + PageText({jobs.front().run_directory}));
  } else if (!jobs.empty()) {
    console.out(RenderJobList(jobs, console.out_width));
  } else if (failures == 0) {
    console.err("no job is running\n");
  }
  for (const run::RunPaths& run : registry.All()) {
    if (run::IsElsewhere(run)) {
      const std::string name = Printable(run::BaseName(run.root));
      console.err(fmt::format("{} is on a rented machine; psctl status {}\n", name, name));
    }
  }
  return failures == 0 ? run::kExitOk : run::kExitFailed;
}

int ShowRun(const StatusCommand& command, const run::RunPaths& run, const run::Console& console) {
  if (!run::FileLock::IsHeld(run.lock())) {
    return PrintSummary(run, command.is_json, console);
  }
  const Result<proto::JobStatus> status = run::FetchStatus(run);
  if (!status.ok()) {
    return run::Fail(console, status.status());
  }
  console.out(
      command.is_json ? proto::StatusToJson(*status)
                      : RenderStatus(*status, console.out_width) + PageText(run));
  return run::kExitOk;
}

int ShowStatus(const StatusCommand& command, const Session& session) {
  const run::Console& console = session.console;
  if (command.job.empty()) {
    return PrintAllRuns(command, console, session.registry);
  }
  return OnAnyRun<StatusCommand, ShowRun>(command, session);
}

int ShowWhy(const WhyCommand& command, const run::RunPaths& run, const run::Console& console) {
  if (!run::FileLock::IsHeld(run.lock())) {
    return run::Fail(
        console,
        Status::NotFound(fmt::format("{} has ended; nobody waits", run::BaseName(run.root))));
  }
  const Result<proto::JobStatus> status = run::FetchStatus(run);
  if (!status.ok()) {
    return run::Fail(console, status.status());
  }
  const bool is_one = command.worker >= 0;
  console.out(RenderWhy(
      *status,
      is_one ? std::optional(WorkerId(static_cast<uint32_t>(command.worker))) : std::nullopt));
  return run::kExitOk;
}

void AddStatus(StatusCommand* command, Arguments* arguments) {
  arguments->AddRun(&command->job);
  arguments->Add("--json", &command->is_json, "Print JSON");
}

void AddWhy(WhyCommand* command, Arguments* arguments) {
  arguments->AddRun(&command->job);
  arguments->Add("WORKER,--worker", &command->worker, "The number of one worker; all if absent");
  arguments->Check([command] {
    return command->worker >= -1
               ? Status::Ok()
               : Status::InvalidArgument("--worker is negative; allowed: the number of a worker");
  });
}

}  // namespace

constinit const Command kStatus = {
    .path = "status",
    .group = Group::kWatch,
    .help = "Show workers, servers, staleness and ledger of a job",
    .examples =
        {{{"psctl status", "running jobs, from any terminal"},
          {"psctl status mnist", "one job's: the newest that has ended where none runs"}}},
    .declare = Declare<StatusCommand, AddStatus, ShowStatus>};

constinit const Command kWhy = {
    .path = "why",
    .group = Group::kWatch,
    .help = "Say where the workers' time goes, what would help, and who waits for whom",
    .examples =
        {{{"psctl why", "where the time goes, and who waits for whom"},
          {"psctl why --worker 3", "one worker"}}},
    .declare = Declare<WhyCommand, AddWhy, OnRun<WhyCommand, ShowWhy>>};

}  // namespace ps::psctl
