#include "run/train.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "provisioner/profile/plan_run.h"
#include "provisioner/profile/profile_merge.h"
#include "provisioner/profile/start_times.h"
#include "ps/base/file.h"
#include "run/directory/copies.h"
#include "run/planning/planning_files.h"
#include "run/report/outcome_view.h"
#include "run/report/summary.h"
#include "run/resume.h"
#include "run/train_run.h"
#include "run/try_again.h"

namespace ps::run {
namespace {

/// Refines the profile that the user named, or the one in the working directory if there is one.
void RefineProfile(
    const proto::JobProfile& told,
    double machine_busy,
    const TrainOrder& order,
    const Console& console) {
  const bool is_named = !order.profile_path.empty();
  const std::string path = is_named ? order.profile_path : kDefaultProfile;
  if (order.no_refine || (!is_named && !ReadFile(path).ok())) {
    return;
  }
  provisioner::Refinement refinement;
  const Result<ProfileUpdate> update =
      UpdateProfileFile(path, [&](const proto::JobProfile* older) -> Result<proto::JobProfile> {
        if (older != nullptr) {
          PS_TRY(CheckSameJob(path, *older, told));
        }
        const proto::JobProfile known = older == nullptr ? proto::JobProfile() : *older;
        refinement = provisioner::RefinementBy(known, told, machine_busy);
        return provisioner::MergeProfiles(known, refinement.part);
      });
  if (!update.ok() && is_named) {
    Fail(console, update.status());
    return;
  }
  console.err(
      update.ok() ? RenderRefinement(path, refinement)
                  : "psctl: the profile is left as it is: " +
                        std::string(update.status().message()) + "\n");
}

/// For planning: the next run of this job, or of another on machines like these.
void LeaveProfile(const proto::JobProfile& profile, const RunPaths& paths, const Console& console) {
  const Status written = WriteFileAtomically(paths.profile(), proto::PrintProfile(profile));
  if (!written.ok()) {
    Fail(console, written);
  }
}

/// Both forms of the summary into the run directory and one to stdout. Returns whether they are in
/// the directory.
bool LeaveSummary(
    const proto::JobStatus& status,
    const std::optional<provisioner::PlanOutcome>& outcome,
    std::span<const proto::StartSample> starts,
    const RunPaths& paths,
    bool is_json,
    const Console& console) {
  const std::string json =
      SummaryToJson(status, outcome ? PlanOutcomeToJson(*outcome) : "", starts) + "\n";
  const std::string against = outcome ? "\n" + RenderPlanOutcome(*outcome) : "";
  bool is_left = true;
  for (const Status& written :
       {WriteFileAtomically(paths.summary_json(), json),
        WriteFileAtomically(paths.summary_text(), RenderSummary(status, 0, starts) + against)}) {
    if (!written.ok()) {
      Fail(console, written);
      is_left = false;
    }
  }
  console.out(is_json ? json : RenderSummary(status, console.out_width, starts) + against);
  return is_left;
}

/// Opens the path of a run that begins, which is in its directory unless the job says otherwise.
Status OpenCheckpoints(const RunPaths& paths, TrainStart* start) {
  proto::CheckpointConfig& config = start->job.config.checkpoint;
  if (!config.enabled || start->resume) {
    return Status::Ok();
  }
  if (config.path.empty()) {
    config.path = paths.checkpoints();
  }
  config.path = std::filesystem::absolute(config.path).lexically_normal().string();
  if (!config.copy_to.empty()) {
    if (config.copy_to.find("://") == std::string::npos) {
      config.copy_to = std::filesystem::absolute(config.copy_to).lexically_normal().string();
    }
    PS_TRY(CheckCopyTarget(config.copy_to));
  }
  PS_ASSIGN(start->checkpoints, OpenNewCheckpoints(config.path));
  return Status::Ok();
}

/// What a run that begins has in its directory.
Status FillDirectory(TrainStart* start) {
  if (start->job.parts.script) {
    const std::string described = start->directory->paths().described();
    PS_TRY(start->job.parts.script->KeepAs(described));
    if (!start->resume) {
      // The servers get its first values from there, as those of any model file.
      start->job.config.model.from = described;
    }
  }
  // The file repeats the job: another run has checkpoints of its own.
  PS_TRY(start->directory->WriteConfig(proto::PrintJobConfig(start->job.config)));
  PS_TRY(OpenCheckpoints(start->directory->paths(), start));
  PS_ASSIGN(start->journal, RunJournal::Open(*start->directory));
  return Status::Ok();
}

Result<std::unique_ptr<TrainRun>> PrepareRun(TrainStart* start, const Console& console) {
  if (!start->recovered) {
    PS_TRY(FillDirectory(start));
  } else if (start->job.config.checkpoint.enabled) {
    PS_ASSIGN(start->checkpoints, ReopenCheckpoints(start->job.config.checkpoint.path));
  }
  if (start->checkpoints.store != nullptr) {
    console.err(checkpoint::IndexDamageText(
        start->checkpoints.store->index_damage(), start->job.config.checkpoint.path));
  }
  PS_ASSIGN(
      MetricsFiles metrics,
      MetricsFiles::Open(
          start->directory->paths(), start->job.config.run.tensorboard, SystemTime().UnixMicros()));
  PS_ASSIGN(EventFile events, EventFile::Open(start->directory->paths()));
  auto run = std::make_unique<TrainRun>(start, std::move(metrics), std::move(events), console);
  PS_TRY(run->Prepare());
  return run;
}

/// Errors: those of JobJournal.
Status RecoverJournal(bool is_behind, TrainStart* start) {
  PS_ASSIGN(start->journal, RunJournal::Open(*start->directory, is_behind));
  PS_ASSIGN(start->recovered, start->journal.journal->Recover());
  return Status::Ok();
}

}  // namespace

Result<ReadyRun> MakeReady(TrainStart start, const Console& console) {
  ReadyRun ready;
  ready.start = std::make_unique<TrainStart>(std::move(start));
  std::optional<RunDirectory>& directory = ready.start->directory;
  if (!directory) {
    const proto::JobConfig& config = ready.start->job.config;
    PS_ASSIGN(
        directory,
        RunDirectory::Create(
            config.run.directory, config.name, SystemTime().UnixMicros(), proto::UsesTls(config)));
  }
  Result<std::unique_ptr<TrainRun>> prepared = PrepareRun(ready.start.get(), console);
  if (!prepared.ok()) {
    if (!ready.start->recovered) {
      directory->Discard();
    }
    return prepared.status();
  }
  ready.run = std::move(prepared).value();
  return ready;
}

int Conduct(
    ReadyRun ready,
    const TrainOrder& order,
    const Console& console,
    const RunRegistry& registry,
    SupervisorLink* link) {
  TrainStart& start = *ready.start;
  TrainRun& run = *ready.run;
  const RunPaths& paths = start.directory->paths();
  // Who hears of the run from the supervisor may look for it in the registry at once.
  const Status added = registry.Add(paths);
  const Status told = link->TellRun(*start.directory);
  if (!told.ok()) {
    registry.Remove(paths);
    if (!start.recovered) {
      start.directory->Discard();
    }
    return Fail(console, told);
  }
  if (!added.ok()) {
    console.err(
        "psctl: status needs the run directory as its argument: " + std::string(added.message()) +
        "\n");
  }
  if (link->shared() != nullptr) {
    start.journal.journal->TellOf(&link->shared()->is_journal_behind);
  }
  const int exit_code = run.Run(link->shared());
  registry.Remove(paths);
  const proto::JobProfile profile = run.Profile();
  LeaveProfile(profile, paths, console);
  std::optional<provisioner::PlanOutcome> outcome;
  if (start.job.plan) {
    outcome = provisioner::CompareWithPlan(
        *start.job.plan, profile, run.loss_reached(), run.status().train_loss);
  }
  const bool is_left = LeaveSummary(
      run.status(),
      outcome,
      provisioner::StartsElsewhere(profile.starts),
      paths,
      order.is_json,
      console);
  if (exit_code != kExitOk) {
    return exit_code;
  }
  RefineProfile(profile, run.machine_busy(), order, console);
  return is_left ? ExitCodeOf(proto::StateName(run.status().state), run.status().model_problem)
                 : kExitFailed;
}

int Train(
    TrainStart start,
    const TrainOrder& order,
    const Console& console,
    const RunRegistry& registry,
    SupervisorLink* link) {
  Result<ReadyRun> ready = MakeReady(std::move(start), console);
  return ready.ok() ? Conduct(std::move(ready).value(), order, console, registry, link)
                    : Fail(console, ready.status());
}

Result<TrainStart> TakeUp(SupervisedRun run, bool* is_final) {
  TrainStart start;
  const std::string root = run.paths.root;
  PS_ASSIGN(start.directory, RunDirectory::Reopen(std::move(run.paths), std::move(run.lock)));
  const Status read = RecoverJournal(run.is_journal_behind, &start);
  if (is_final != nullptr) {
    // What the journal says does not change; whether it can be read does.
    *is_final = read.ok()
                    ? !start.recovered
                    : read.code() != StatusCode::kUnavailable && read.code() != StatusCode::kIo;
  }
  PS_TRY(read);
  if (!start.recovered) {
    return Status::NotFound(fmt::format("the run of {} had not begun", root));
  }
  const proto::JobState& state = start.recovered->state;
  PS_ASSIGN(start.job.config, proto::ParsePrintedJobConfig(state.config_json));
  // Servers and workers wait for fleet.orphan_grace_s, which reading all text again may outlast.
  PS_ASSIGN(
      start.job.parts,
      LoadParts(
          start.job.config,
          start.directory->paths().config(),
          {},
          state.data ? &state.data->fingerprint : nullptr));
  return start;
}

namespace {

/// Takes the run up, and tries again for as long as its servers and workers wait.
Status TakeUpInTime(
    const SupervisedRun& run,
    const std::optional<proto::Plan>& plan,
    const Console& console,
    ReadyRun* taken) {
  Duration grace = FromSeconds(double{proto::FleetConfig().orphan_grace_s});
  const auto attempt = [&]() -> TryOutcome {
    taken->start.reset();  // with its journal, which can be open once
    UniqueFd lock(::fcntl(run.lock.fd(), F_DUPFD_CLOEXEC, 0));
    if (!lock.is_open()) {
      return {IoError("cannot share the lock of", run.paths.root)};
    }
    bool is_final = false;
    Result<TrainStart> start =
        TakeUp({run.paths, FileLock(std::move(lock)), run.is_journal_behind}, &is_final);
    if (!start.ok()) {
      return {start.status(), is_final};
    }
    taken->start = std::make_unique<TrainStart>(std::move(start).value());
    taken->start->job.plan = plan;
    grace = FromSeconds(double{taken->start->job.config.fleet.orphan_grace_s});
    Result<std::unique_ptr<TrainRun>> prepared = PrepareRun(taken->start.get(), console);
    taken->run = prepared.ok() ? std::move(prepared).value() : nullptr;
    return {prepared.status()};
  };
  const TryAgainWorld world{&SystemTime(), WaitUnlessStopped, [&console](const std::string& line) {
                              console.err("psctl: " + line);
                            }};
  return TryAgain(
      attempt, [&grace] { return grace; }, world);
}

}  // namespace

int Coordinate(
    const BeginRun& begin,
    const std::optional<proto::Plan>& plan,
    const TrainOrder& order,
    const Console& console,
    const RunRegistry& registry) {
  CoordinatorProcess process;
  process.begin = begin;
  process.go_on = [&](SupervisedRun run, const Console& own_console, SupervisorLink* link) {
    ReadyRun taken;
    if (const Status up = TakeUpInTime(run, plan, own_console, &taken); !up.ok()) {
      return taken.start != nullptr
                 ? Fail(own_console, up)
                 : GoOnWithoutJournal(std::move(run), up, order, own_console, registry, link);
    }
    return Conduct(std::move(taken), order, own_console, registry, link);
  };
  return Supervise(process, order.is_detached, console);
}

int RunTrain(const TrainOrder& order, const Console& console, const RunRegistry& registry) {
  const Result<proto::JobConfig> config = proto::LoadJobConfig(order.job_path, order.overrides);
  if (!config.ok()) {
    return Misuse(console, config.status());
  }
  Result<PreparedJob> job = PrepareJob(*config, order.job_path, order.overrides, order.plan_path);
  if (!job.ok()) {
    return Misuse(console, job.status());
  }
  if (!job->note.empty()) {
    console.err("psctl: " + job->note + "\n");
  }
  TrainStart start;
  start.job = std::move(job).value();
  const std::optional<proto::Plan> plan = start.job.plan;
  return Coordinate(
      [&](const Console& own_console, SupervisorLink* link) {
        return Train(std::move(start), order, own_console, registry, link);
      },
      plan,
      order,
      console,
      registry);
}

}  // namespace ps::run
