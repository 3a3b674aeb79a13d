#include "run/resume.h"

#include <fmt/core.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/remote/place.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "run/directory/borrowed_job.h"
#include "run/directory/copies.h"
#include "run/directory/resumable.h"
#include "run/rented_machines.h"
#include "run/report/tables.h"
#include "run/resume_loss.h"
#include "run/train.h"
#include "run/train_run.h"
#include "run/try_again.h"

namespace ps::run {
namespace {

/// What there is to go on from.
struct Source {
  std::string path;             // of checkpoints, or the place of their copies
  std::optional<RunPaths> run;  // none: the path was named
};

Result<Source> SourceOf(const std::string& from, const RunRegistry& registry) {
  if (checkpoint::IsObjectStore(from) || IsCheckpointPath(from)) {
    return Source{from, std::nullopt};
  }
  PS_ASSIGN(const RunPaths run, ResolveToResume(from, registry));
  if (FileLock::StaysHeld(run.lock())) {
    return Status::Unavailable(fmt::format(
        "{} is still running; psctl attach shows it, psctl stop ends it", BaseName(run.root)));
  }
  return Source{CheckpointPathOf(run), run};
}

constexpr const char* kOfNoUse = "its journal is of no use: ";

/// Whether nobody can ever go on from the journal, rather than not now.
bool IsOfNoUse(const Status& why) {
  return why.code() == StatusCode::kInvalidArgument || why.code() == StatusCode::kCorruption ||
         why.code() == StatusCode::kUnsupported;
}

/// Whether another attempt may come to something else.
bool MayPass(const Status& why) {
  return why.code() == StatusCode::kIo || why.code() == StatusCode::kUnavailable ||
         why.code() == StatusCode::kDeadlineExceeded;
}

/// What a run left whose coordinator was killed.
struct LeftByRun {
  std::optional<TrainStart> start;  // its servers wait for another coordinator
  // Nothing waits: checkpoints are what is left, and these processes may still use them.
  std::vector<proto::LaunchRecord> processes;
  std::optional<proto::JobState> state;  // of its journal, when that can be read
};

Result<LeftByRun> FromJournal(const RunPaths& run, bool has_overrides, const Console& console) {
  PS_ASSIGN(const bool has_journal, IsThere(run.journal()));
  if (!has_journal) {
    return LeftByRun();
  }
  PS_ASSIGN(FileLock lock, FileLock::Take(run.lock(), ""));
  Result<TrainStart> start = TakeUp({run, std::move(lock)});
  if (!start.ok()) {
    LeftByRun left;
    left.processes = ReadLaunches(run);  // none: there are none, or it can't be read
    if (MayPass(start.status()) && (left.processes.empty() || HasItsServers(left.processes))) {
      return Status(
          start.status().code(),
          fmt::format(
              "its journal can't be read now, by which no step would be repeated; try again while "
              "its servers wait, for fleet.orphan_grace_s, or go on from the newest "
              "checkpoint with psctl resume {} ({})",
              CheckpointPathOf(run),
              start.status().message()));
    }
    console.err(kOfNoUse + Printable(start.status().message()) + "\n");
    if (start.status().code() == StatusCode::kNotFound) {
      left.processes.clear();  // it had not begun
    }
    return left;
  }
  const std::vector<proto::LaunchRecord>& launches = start->recovered->launches;
  if (!HasItsServers(launches)) {
    return LeftByRun{std::nullopt, launches, start->recovered->state};
  }
  if (has_overrides) {
    return Status::InvalidArgument(fmt::format(
        "servers of {} still run: without --set they are gone on with; a while after the "
        "coordinator's end, fleet.orphan_grace_s, they end themselves",
        BaseName(run.root)));
  }
  console.err(
      "going on from the journal of " + Printable(run.root) +
      ": its servers still run, no step is repeated\n");
  return LeftByRun{std::move(start).value(), {}, std::nullopt};
}

/// What a checkpoint can't go on with.
Status CheckSameModel(
    const checkpoint::Manifest& manifest,
    const proto::JobConfig& before,
    const proto::JobConfig& now,
    const worker::Model& model) {
  if (manifest.tensors != model.tensors) {
    return Status::InvalidArgument(
        "the checkpoint is of another model; --set may not change the model's layers");
  }
  if (before.servers.chunk_kib != now.servers.chunk_kib) {
    return Status::InvalidArgument(fmt::format(
        "servers.chunk_kib was {} and has to stay: the checkpoint is cut into such chunks",
        before.servers.chunk_kib));
  }
  if (before.optimizer.kind != now.optimizer.kind ||
      (before.optimizer.momentum > 0) != (now.optimizer.momentum > 0)) {
    return Status::InvalidArgument(
        "optimizer.kind, and whether there is momentum, have to stay: the checkpoint has the "
        "optimizer's state");
  }
  return Status::Ok();
}

std::string Describe(
    const FoundCheckpoint& found,
    const std::string& path,
    const std::optional<CountedWork>& counted,
    double checkpoint_every_s) {
  const checkpoint::Progress& progress = found.manifest.progress;
  std::string text;
  for (const checkpoint::SetAside& skipped : found.skipped) {
    text += fmt::format(
        "checkpoint {} is skipped: {}; {}\n",
        skipped.id,
        Printable(skipped.why),
        skipped.is_corrupt ? "it is damaged for good, and goes when the next checkpoint is written"
                           : "it stays as it is: stop, put back what is missing and resume again "
                             "to go on from it; psctl checkpoint prune --keep N removes it once N "
                             "newer ones are whole");
  }
  text += fmt::format(
      "going on from checkpoint {} in {}: {}, {}, {}, loss {}\n",
      found.manifest.id,
      Printable(path),
      Plural(progress.epoch, "epoch"),
      Plural(progress.steps, "step"),
      Plural(progress.samples, "sample"),
      FormatLoss(progress.loss));
  text += LossText(progress, counted, checkpoint_every_s);
  if (found.steps_repeated > 0) {
    text += fmt::format(
        "trained twice: {} that the checkpoint's parameters have and that had not counted\n",
        Plural(found.steps_repeated, "step"));
  }
  return text;
}

/// Asked before a program of the job is run, which describes itself.
using MayRun = std::function<Status(const proto::JobConfig& config)>;

/// The job of a checkpoint with what the command changes. Errors: kInvalidArgument and others, each
/// of them a misuse.
Result<PreparedJob> JobOf(
    const checkpoint::Manifest& manifest, const ResumeOrder& order, const MayRun& may_run = {}) {
  const std::string name = fmt::format("the job of checkpoint {}", manifest.id);
  PS_ASSIGN(const proto::JobConfig before, proto::ParsePrintedJobConfig(manifest.config_json));
  PreparedJob job;
  PS_ASSIGN(job.config, proto::ParseJobConfig(manifest.config_json, name, order.overrides));
  job.config.model.from.clear();  // the checkpoint has the values
  if (may_run && !job.config.worker.program.empty()) {
    PS_TRY(may_run(job.config));
  }
  PS_ASSIGN(job.parts, LoadParts(job.config, name, order.overrides));
  PS_ASSIGN(job.config, CompleteJob(job.config, job.parts, name, order.overrides));
  PS_TRY(CheckSameModel(manifest, before, job.config, job.parts.model));
  PS_ASSIGN(const proto::JobState saved, proto::DecodeJobState(manifest.job_state));
  PS_TRY(coordinator::CheckSameOrder(saved, before, job.config, job.parts.data.train_count));
  const uint32_t frozen = job.parts.script ? job.parts.script->description().frozen_crc : 0;
  if (saved.frozen_crc != 0 && frozen != 0 && saved.frozen_crc != frozen) {
    return Status::InvalidArgument(fmt::format(
        "worker.program loads other values than before for what nobody trains (CRC {:08x} and not "
        "{:08x}), and the checkpoint was trained with those; have it load the same files",
        frozen,
        saved.frozen_crc));
  }
  return job;
}

/// The job of a checkpoint that was copied from `place`, or lies there.
Result<PreparedJob> BorrowedJobOf(
    const checkpoint::Manifest& manifest,
    const ResumeOrder& order,
    const std::string& place,
    Confirmation* confirmation) {
  const auto confirm = [&](const proto::JobConfig& config) {
    return confirmation->Confirm(SettingsToConfirm(config, order.overrides, place), place);
  };
  PS_ASSIGN(PreparedJob job, JobOf(manifest, order, confirm));
  PS_TRY(confirm(job.config));
  job.config.run.directory = BorrowedRunDirectory(job.config, order.overrides);
  return job;
}

/// What came of an attempt to go on from a checkpoint.
struct Attempt {
  Status status;
  bool is_misuse = false;  // what the command says does not fit
  ReadyRun ready;          // when OK
};

Attempt Failed(Status why) {
  return {.status = std::move(why), .is_misuse = false, .ready = {}};
}

/// The job, or what the command changes of it, is not right, unless what it names can't be read.
Attempt Misfit(Status why) {
  const bool is_misuse = !MayPass(why);
  return {.status = std::move(why), .is_misuse = is_misuse, .ready = {}};
}

/// What the job of a checkpoint begins with does not fit the checkpoint.
Status CheckFits(const FoundCheckpoint& found, const PreparedJob& job) {
  coordinator::CoordinatorOptions options;
  options.config = job.config;
  options.tensors = job.parts.model.tensors;
  options.train_samples = job.parts.data.train_count;
  options.test_samples = job.parts.data.test_count;
  options.validation_samples = job.parts.data.validation_count;
  options.resume = coordinator::ResumeFrom{found.state, found.manifest.id};
  const Status fits = coordinator::CheckJobState(coordinator::MakeJobState(options), options);
  return fits.ok() ? fits
                   : Status(
                         fits.code(),
                         "the checkpoint does not fit the data or the length of the job: " +
                             std::string(fits.message()));
}

/// The run that goes on rents under a name of its own, and knows nothing of these.
void GiveBackMachines(const RunPaths& run, const Console& console) {
  const Result<size_t> released = ReleaseMachinesOf(run);
  if (!released.ok()) {
    console.err(fmt::format(
        "psctl: the machines that {} had may go on costing until they end themselves "
        "(launch.rent.watch_min): {}; psctl cloud sweep ends them\n",
        BaseName(run.root),
        Printable(released.status().message())));
  } else if (*released > 0) {
    console.err(fmt::format("told {} that it had left to end\n", Plural(*released, "machine")));
  }
}

/// Makes a run of its own ready, which goes on from the newest checkpoint that is whole. All is
/// checked before anything is changed: the processes that were left, and the path. `told` is what
/// was said of the checkpoint by an attempt before this one.
Attempt BeginFromCheckpoint(
    const Source& source,
    const LeftByRun& left,
    const ResumeOrder& order,
    const Console& console,
    const RunRegistry& registry,
    std::string* told) {
  std::string path = source.path;
  Confirmation confirmation(order.is_trusted, order.is_detached ? nullptr : AskOnTerminal());
  if (checkpoint::IsObjectStore(path)) {
    // What does not fit, or may not be started, is not fetched.
    std::string parent = proto::RunConfig().directory;
    if (const Result<checkpoint::Manifest> newest = ReadNewestCopy(path); newest.ok()) {
      const Result<PreparedJob> job = BorrowedJobOf(*newest, order, path, &confirmation);
      if (!job.ok()) {
        return Misfit(job.status());
      }
      parent = job->config.run.directory;
    }
    Result<std::string> fetched = FetchCheckpoint(path, parent, console);
    if (!fetched.ok()) {
      return Failed(fetched.status());
    }
    path = std::move(fetched).value();
  }
  Result<FoundCheckpoint> found = FindNewestCheckpoint(path);
  if (!found.ok()) {
    return Failed(found.status());
  }
  const Result<std::string> origin = OriginOf(*found->checkpoints.store, found->manifest.id);
  if (!origin.ok()) {
    return Failed(origin.status());
  }
  Result<PreparedJob> job = origin->empty()
                                ? JobOf(found->manifest, order)
                                : BorrowedJobOf(found->manifest, order, *origin, &confirmation);
  if (!job.ok()) {
    return Misfit(job.status());
  }
  job->config.checkpoint.path = path;
  if (Status fits = CheckFits(*found, *job); !fits.ok()) {
    return Misfit(std::move(fits));
  }
  if (const size_t killed = KillProcesses(left.processes); killed > 0) {
    console.err("ended what was left of it: " + std::to_string(killed) + " of its processes\n");
  }
  if (source.run) {
    GiveBackMachines(*source.run, console);
  }
  if (Status noted = NoteSkipped(*found); !noted.ok()) {
    return Failed(std::move(noted));
  }
  std::optional<CountedWork> counted =
      left.state ? CountedByJournal(*left.state, found->manifest.id) : std::nullopt;
  if (!counted) {
    counted = FindCounted(path, source.run, registry, found->manifest);
  }
  std::string text =
      Describe(*found, path, counted, static_cast<double>(job->config.checkpoint.every_s));
  if (text != *told) {
    console.err(text);
    *told = std::move(text);
  }
  TrainStart start;
  start.job = std::move(job).value();
  start.checkpoints = std::move(found->checkpoints);
  start.resume = coordinator::ResumeFrom{std::move(found->state), found->manifest.id};
  Result<ReadyRun> ready = MakeReady(std::move(start), console);
  return ready.ok() ? Attempt{.status = Status::Ok(), .ready = std::move(ready).value()}
                    : Failed(ready.status());
}

}  // namespace

int GoOnWithoutJournal(
    SupervisedRun run,
    const Status& why,
    const TrainOrder& order,
    const Console& console,
    const RunRegistry& registry,
    SupervisorLink* link) {
  if (!IsOfNoUse(why)) {
    return Fail(console, why);
  }
  console.err("psctl: " + (kOfNoUse + Printable(why.message())) + "\n");
  const LeftByRun left{std::nullopt, ReadLaunches(run.paths), std::nullopt};
  run.lock = FileLock();  // it is over; the run that goes on has a directory of its own
  ResumeOrder resume;
  resume.is_trusted = true;  // what it starts was started before
  const Source source{CheckpointPathOf(run.paths), run.paths};
  const Result<proto::JobConfig> config = proto::LoadJobConfig(run.paths.config(), {});
  const Duration grace =
      FromSeconds(double{(config.ok() ? config->fleet : proto::FleetConfig()).orphan_grace_s});
  Attempt attempt;
  std::string told;
  // Why the journal fell behind, a full disk, may be why the checkpoint can't be gone on from yet.
  const auto begin = [&]() -> TryOutcome {
    attempt = BeginFromCheckpoint(source, left, resume, console, registry, &told);
    return {attempt.status, attempt.is_misuse || !MayPass(attempt.status)};
  };
  const TryAgainWorld world{&SystemTime(), WaitUnlessStopped, [&console](const std::string& line) {
                              console.err("psctl: " + line);
                            }};
  const Status begun = TryAgain(
      begin, [grace] { return grace; }, world);
  if (!begun.ok()) {
    return Fail(console, begun);
  }
  TrainOrder train = order;
  train.no_refine = true;
  return Conduct(std::move(attempt.ready), train, console, registry, link);
}

int RunResume(const ResumeOrder& order, const Console& console, const RunRegistry& registry) {
  Result<Source> source = SourceOf(order.from, registry);
  if (!source.ok()) {
    return Fail(console, source.status());
  }
  TrainOrder train;
  train.is_json = order.is_json;
  train.is_detached = order.is_detached;
  train.no_refine = true;
  const auto begin = [&](const Console& own_console, SupervisorLink* link) {
    Result<LeftByRun> left = source->run
                                 ? FromJournal(*source->run, !order.overrides.empty(), own_console)
                                 : LeftByRun();
    if (!left.ok()) {
      return Fail(own_console, left.status());
    }
    if (left->start) {
      return Train(std::move(*left->start), train, own_console, registry, link);
    }
    std::string told;
    Attempt attempt = BeginFromCheckpoint(*source, *left, order, own_console, registry, &told);
    if (!attempt.status.ok()) {
      return attempt.is_misuse ? Misuse(own_console, attempt.status)
                               : Fail(own_console, attempt.status);
    }
    return Conduct(std::move(attempt.ready), train, own_console, registry, link);
  };
  return Coordinate(begin, std::nullopt, train, console, registry);
}

}  // namespace ps::run
