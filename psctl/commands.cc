#include "psctl/commands.h"

#include <fmt/core.h>
#include <poll.h>

#include <filesystem>
#include <utility>
#include <variant>

#include "checkpoint/remote/place.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "ps/proto/json_writer.h"
#include "psctl/command_line.h"
#include "psctl/runs/checkpoint_command.h"
#include "psctl/runs/remote_copies.h"
#include "psctl/view/status_view.h"
#include "run/directory/control.h"
#include "run/directory/run_checkpoints.h"
#include "run/planning/plan_from_run.h"
#include "run/planning/price_age.h"

namespace ps::psctl {
namespace {

constexpr int kStopPollMillis = 100;
constexpr int kStopPollsMax = 1200;  // two minutes

/// The run that a command is about: the named one, or the only one that is running.
Result<RunPaths> ChooseRun(const std::string& job, const RunRegistry& registry) {
  if (job.ends_with(".json") && std::filesystem::is_regular_file(job)) {
    PS_ASSIGN(const proto::JobConfig config, proto::LoadJobConfig(job));
    return registry.Resolve(config.name);
  }
  if (!job.empty()) {
    return registry.Resolve(job);
  }
  const std::vector<RunningJob> running = registry.Find();
  if (running.empty()) {
    return Status::NotFound("no job is running");
  }
  if (running.size() > 1) {
    std::string names;
    for (const RunningJob& candidate : running) {
      names += (names.empty() ? "" : ", ") + BaseName(candidate.paths.root);
    }
    return Status::InvalidArgument(fmt::format("several jobs are running; name one: {}", names));
  }
  return running.front().paths;
}

int PrintEndedRun(const RunPaths& run, bool is_json, const Console& console) {
  const Result<std::string> summary = ReadFile(is_json ? run.summary_json() : run.summary_text());
  if (!summary.ok()) {
    return Fail(
        console,
        Status::NotFound(fmt::format(
            "{} has ended and left no summary; its logs are in {}, and psctl resume {} goes on",
            BaseName(run.root),
            run.logs(),
            run.root)));
  }
  console.out(*summary);
  return kExitOk;
}

int PrintAllRuns(
    const StatusCommand& command, const Console& console, const RunRegistry& registry) {
  std::vector<proto::JobStatus> jobs;
  size_t failures = 0;
  for (const RunningJob& job : registry.Find()) {
    Result<proto::JobStatus> status = FetchStatus(job.paths);
    if (status.ok()) {
      if (command.is_json) {
        AddLastEvents(job.paths, &*status);
      }
      jobs.push_back(std::move(status).value());
    } else if (FileLock::IsHeld(job.paths.lock())) {  // else it ended just now
      Fail(console, status.status());
      ++failures;
    }
  }
  if (command.is_json) {
    proto::JsonWriter json(proto::JsonForm::kOneLine);
    json.BeginList();
    for (const proto::JobStatus& job : jobs) {
      json.Raw(proto::StatusToJson(job));
    }
    json.EndList();
    console.out(std::move(json).Take() + "\n");
  } else if (jobs.size() == 1) {
    console.out(RenderStatus(jobs.front(), console.out_width));
  } else if (!jobs.empty()) {
    console.out(RenderJobList(jobs, console.out_width));
  } else if (failures == 0) {
    console.err("no job is running\n");
  }
  return failures == 0 ? kExitOk : kExitFailed;
}

int RunStatus(const StatusCommand& command, const Console& console, const RunRegistry& registry) {
  if (command.job.empty()) {
    return PrintAllRuns(command, console, registry);
  }
  const Result<RunPaths> run = ChooseRun(command.job, registry);
  if (!run.ok()) {
    return Fail(console, run.status());
  }
  if (!FileLock::IsHeld(run->lock())) {
    return PrintEndedRun(*run, command.is_json, console);
  }
  Result<proto::JobStatus> status = FetchStatus(*run);
  if (!status.ok()) {
    return Fail(console, status.status());
  }
  if (command.is_json) {
    AddLastEvents(*run, &*status);
  }
  console.out(
      command.is_json ? proto::StatusToJson(*status) : RenderStatus(*status, console.out_width));
  return kExitOk;
}

int RunWhy(const WhyCommand& command, const Console& console, const RunRegistry& registry) {
  const Result<RunPaths> run = ChooseRun(command.job, registry);
  if (!run.ok()) {
    return Fail(console, run.status());
  }
  if (!FileLock::IsHeld(run->lock())) {
    return Fail(
        console, Status::NotFound(fmt::format("{} has ended; nobody waits", BaseName(run->root))));
  }
  const Result<proto::JobStatus> status = FetchStatus(*run);
  if (!status.ok()) {
    return Fail(console, status.status());
  }
  console.out(RenderWhy(*status));
  return kExitOk;
}

int RunStop(const StopCommand& command, const Console& console, const RunRegistry& registry) {
  const Result<RunPaths> run = ChooseRun(command.job, registry);
  if (!run.ok()) {
    return Fail(console, run.status());
  }
  const std::string name = BaseName(run->root);
  if (!FileLock::IsHeld(run->lock())) {
    return Fail(console, Status::NotFound(fmt::format("{} has ended already", name)));
  }
  const Status asked = AskToStop(*run, command.is_immediate);
  if (!asked.ok()) {
    return Fail(console, asked);
  }
  console.err(
      name +
      (command.is_immediate ? " is ending at once\n" : " is ending after the steps in hand\n"));
  for (int i = 0; i < kStopPollsMax; ++i) {
    if (!FileLock::IsHeld(run->lock())) {
      console.out(name + " has ended\n");
      return kExitOk;
    }
    ::poll(nullptr, 0, kStopPollMillis);
  }
  return Fail(
      console,
      Status::DeadlineExceeded(
          fmt::format("{} is still running; psctl stop --now ends it at once", name)));
}

/// On the run that was named, or the only one. `run_it` returns the exit code.
template <typename Run>
int OnRun(const std::string& job, const Console& console, const RunRegistry& registry, Run run_it) {
  const Result<RunPaths> run = ChooseRun(job, registry);
  return run.ok() ? run_it(*run) : Fail(console, run.status());
}

/// Of the run that was named, or of no run.
int RunPlanCommand(
    const PlanCommand& command, const Console& console, const RunRegistry& registry) {
  const std::string today = DayOf(SystemTime().UnixMicros());
  if (command.run.empty()) {
    return RunPlan(command, today, console);
  }
  return OnRun(command.run, console, registry, [&](const RunPaths& run) {
    const Result<PlanCommand> filled = FillFromRun(command, run);
    return filled.ok() ? RunPlan(*filled, today, console) : Fail(console, filled.status());
  });
}

/// On the checkpoint path that was named, or of the run that was.
int RunOnCheckpoints(
    const CheckpointCommand& command, const Console& console, const RunRegistry& registry) {
  if (checkpoint::IsObjectStore(command.where)) {
    return RunOnObjects(command, console);
  }
  if (IsCheckpointPath(command.where)) {
    return RunCheckpoint(command, command.where, console);
  }
  const Result<RunPaths> run = ChooseRun(command.where, registry);
  if (!run.ok()) {
    return Fail(
        console,
        Status(
            run.status().code(),
            std::string(run.status().message()) + "; name a run or a checkpoint path"));
  }
  return RunCheckpoint(command, CheckpointPathOf(*run), console);
}

}  // namespace

int RunPsctl(
    const std::vector<std::string>& arguments,
    const Console& console,
    const RunRegistry& registry) {
  Result<Command> command = ParseCommandLine(arguments);
  if (!command.ok()) {
    return Misuse(console, command.status());
  }
  if (const auto* print = std::get_if<PrintCommand>(&*command)) {
    console.out(print->text);
    return kExitOk;
  }
  if (const auto* check = std::get_if<CheckCommand>(&*command)) {
    return RunCheck(*check, console);
  }
  if (const auto* model = std::get_if<ModelCommand>(&*command)) {
    return RunModel(*model, console);
  }
  if (const auto* runs = std::get_if<RunsCommand>(&*command)) {
    return RunRuns(*runs, console, registry);
  }
  if (const auto* status = std::get_if<StatusCommand>(&*command)) {
    return RunStatus(*status, console, registry);
  }
  if (const auto* why = std::get_if<WhyCommand>(&*command)) {
    return RunWhy(*why, console, registry);
  }
  if (const auto* stop = std::get_if<StopCommand>(&*command)) {
    return RunStop(*stop, console, registry);
  }
  if (const auto* notice = std::get_if<NoticeCommand>(&*command)) {
    return OnRun(notice->job, console, registry, [&](const RunPaths& run) {
      return RunNotice(*notice, run, console);
    });
  }
  if (const auto* drain = std::get_if<DrainCommand>(&*command)) {
    return OnRun(drain->job, console, registry, [&](const RunPaths& run) {
      return RunDrain(*drain, run, console);
    });
  }
  if (const auto* scale = std::get_if<ScaleCommand>(&*command)) {
    return OnRun(scale->job, console, registry, [&](const RunPaths& run) {
      return RunScale(*scale, run, DayOf(SystemTime().UnixMicros()), console);
    });
  }
  if (const auto* pause = std::get_if<PauseCommand>(&*command)) {
    return OnRun(pause->job, console, registry, [&](const RunPaths& run) {
      return RunPause(*pause, run, console);
    });
  }
  if (const auto* mode = std::get_if<ModeCommand>(&*command)) {
    return OnRun(mode->job, console, registry, [&](const RunPaths& run) {
      return RunMode(*mode, run, console);
    });
  }
  if (const auto* top = std::get_if<TopCommand>(&*command)) {
    return OnRun(top->job, console, registry, [&](const RunPaths& run) {
      return RunTop(*top, run, console);
    });
  }
  if (const auto* events = std::get_if<EventsCommand>(&*command)) {
    return OnRun(events->job, console, registry, [&](const RunPaths& run) {
      return RunEventList(*events, run, console);
    });
  }
  if (const auto* attach = std::get_if<AttachCommand>(&*command)) {
    return OnRun(attach->job, console, registry, [&](const RunPaths& run) {
      return RunAttach(*attach, run, console);
    });
  }
  if (const auto* replay = std::get_if<ReplayCommand>(&*command)) {
    return RunReplay(*replay, console, registry);
  }
  if (const auto* forecast = std::get_if<ForecastCommand>(&*command)) {
    return RunForecast(*forecast, console);
  }
  if (const auto* simulate = std::get_if<SimulateCommand>(&*command)) {
    return RunSimulate(*simulate, console);
  }
  if (const auto* resume = std::get_if<ResumeCommand>(&*command)) {
    return RunResume(*resume, console, registry);
  }
  if (const auto* show = std::get_if<CatalogShowCommand>(&*command)) {
    return RunCatalogShow(*show, DayOf(SystemTime().UnixMicros()), console);
  }
  if (const auto* check = std::get_if<CatalogCheckCommand>(&*command)) {
    return RunCatalogCheck(*check, DayOf(SystemTime().UnixMicros()), console);
  }
  if (const auto* import = std::get_if<CatalogImportCommand>(&*command)) {
    return RunCatalogImport(*import, console);
  }
  if (const auto* checkpoint = std::get_if<CheckpointCommand>(&*command)) {
    return RunOnCheckpoints(*checkpoint, console, registry);
  }
  if (const auto* plan = std::get_if<PlanCommand>(&*command)) {
    return RunPlanCommand(*plan, console, registry);
  }
  if (const auto* predict = std::get_if<PredictCommand>(&*command)) {
    return RunPredict(*predict, DayOf(SystemTime().UnixMicros()), console);
  }
  if (const auto* profile = std::get_if<ProfileCommand>(&*command)) {
    return RunProfile(*profile, console);
  }
  if (const auto* tune = std::get_if<TuneCommand>(&*command)) {
    return RunTune(*tune, console);
  }
  return RunTrain(std::get<TrainCommand>(*command), console, registry);
}

}  // namespace ps::psctl
