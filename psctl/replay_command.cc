#include "psctl/replay_command.h"

#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "provisioner/fleet/local_process.h"
#include "ps/base/file.h"
#include "ps/base/random.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "psctl/control.h"
#include "psctl/plan_watch.h"
#include "psctl/replay_report.h"
#include "psctl/run_events.h"
#include "psctl/runs_command.h"

namespace ps::psctl {
namespace {

constexpr size_t kTraceBytesMax = size_t{64} << 20;
constexpr int kLookMillis = 100;
constexpr Duration kPatienceToBegin = std::chrono::seconds(120);
constexpr Duration kPatienceToEnd = std::chrono::seconds(120);
constexpr Duration kGraceMin = std::chrono::milliseconds(500);

/// Runs psctl itself with these arguments, on this terminal. Returns its exit code.
Result<int> RunSelf(std::vector<std::string> arguments) {
  std::string program = "/proc/self/exe";
  std::vector<char*> words = {program.data()};
  for (std::string& argument : arguments) {
    words.push_back(argument.data());
  }
  words.push_back(nullptr);
  pid_t child = 0;
  if (const int error =
          ::posix_spawn(&child, program.c_str(), nullptr, nullptr, words.data(), environ);
      error != 0) {
    return Status::Io(fmt::format("cannot start psctl train: {}", std::strerror(error)));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kExitFailed;
}

std::set<std::string> RootsOf(const RunRegistry& registry) {
  std::set<std::string> roots;
  for (const RunningJob& job : registry.Find()) {
    roots.insert(job.paths.root);
  }
  return roots;
}

/// Starts the run, detached. Nothing replaces workers there but the trace.
Result<RunPaths> StartRun(const ReplayCommand& command, const RunRegistry& registry) {
  const std::set<std::string> before = RootsOf(registry);
  std::vector<std::string> arguments = {"train", command.job_path, "--detach", "--no-refine"};
  for (const proto::ConfigOverride& setting : command.overrides) {
    arguments.insert(arguments.end(), {"--set", setting.key + "=" + setting.value});
  }
  arguments.insert(arguments.end(), {"--set", "fleet.replace=false"});
  PS_ASSIGN(const int exit_code, RunSelf(std::move(arguments)));
  if (exit_code != 0) {
    return Status::InvalidArgument("the run did not start");
  }
  for (const RunningJob& job : registry.Find()) {
    if (!before.contains(job.paths.root)) {
      return job.paths;
    }
  }
  return Status::NotFound("the run ended at once; psctl runs lists it");
}

/// Lets the fleet follow the trace.
class Replayer {
 public:
  Replayer(
      const ReplayCommand& command,
      const RunPaths& run,
      const AvailabilityTrace& trace,
      ReplayReport begun)
      : command_(command), run_(run), trace_(trace), meter_(std::move(begun)) {}

  /// Until training goes on with the fleet that the trace begins with. Errors: it does not.
  Status Begin(const InterruptGuard& interrupts) {
    const TimePoint by = SystemTime().Now() + kPatienceToBegin;
    const uint32_t wanted = trace_.steps.front().nodes;
    bool is_asked = false;
    while (SystemTime().Now() < by && !interrupts.IsInterrupted()) {
      if (!FileLock::IsHeld(run_.lock())) {
        return Status::Unavailable(
            fmt::format("the run has ended before the replay began; psctl status {}", run_.root));
      }
      const Result<proto::JobStatus> status = FetchStatus(run_);
      if (status.ok() && status->state != "starting") {
        if (!is_asked) {
          PS_TRY(Scale({"", static_cast<int32_t>(wanted), false}));
          is_asked = true;
        }
        if (CountWorkers(*status) == wanted) {
          return Status::Ok();
        }
      }
      ::poll(nullptr, 0, kLookMillis);
    }
    return Status::DeadlineExceeded(
        fmt::format("the {} workers that the trace begins with did not all join", wanted));
  }

  /// Until the trace is over, the run is, or somebody interrupts. Errors: the fleet can't follow.
  Status Follow(const InterruptGuard& interrupts) {
    const TimePoint begin = SystemTime().Now();
    size_t next = 1;
    while (!interrupts.IsInterrupted() && FileLock::IsHeld(run_.lock())) {
      const double at_s = std::min(Seconds(SystemTime().Now() - begin), trace_.end_s);
      const Result<proto::JobStatus> status = FetchStatus(run_);
      if (status.ok()) {
        meter_.Look(at_s, trace_.steps[next - 1].nodes, *status);
        if (next < trace_.steps.size() && trace_.steps[next].at_s <= at_s) {
          PS_TRY(Change(trace_.steps[next - 1].nodes, trace_.steps[next].nodes, *status));
          ++next;
          continue;
        }
      }
      if (at_s >= trace_.end_s || (status.ok() && status->state == "done")) {
        return Status::Ok();
      }
      ::poll(nullptr, 0, kLookMillis);
    }
    return Status::Ok();
  }

  ReplayReport Finish() const { return meter_.Finish(); }

 private:
  Status Scale(const proto::ScaleChange& change) const {
    return AskToScale(run_, {change}).status();
  }

  /// Workers that somebody started by hand, here or elsewhere, are no machines of the trace.
  bool IsOfTrace(const proto::WorkerRow& row) const {
    return row.incarnation != Incarnation() && !row.is_gone() && row.state != "draining" &&
           IsWorkerOf(row.pid, run_.root, row.worker);
  }

  Status Change(uint32_t from, uint32_t to, const proto::JobStatus& status) {
    if (to > from) {
      return Scale({"", static_cast<int32_t>(to), false});
    }
    std::vector<proto::WorkerRow> present;
    std::ranges::copy_if(status.workers, std::back_inserter(present), [this](const auto& row) {
      return IsOfTrace(row);
    });
    for (uint32_t i = to; i < from; ++i) {
      if (present.empty()) {
        return Scale({"", static_cast<int32_t>(to), false});
      }
      const auto victim =
          present.begin() + static_cast<std::ptrdiff_t>(random_.Below(present.size()));
      PS_TRY(Revoke(*victim));
      present.erase(victim);
    }
    return Status::Ok();
  }

  /// Takes the machine of a worker. Whoever has gone meanwhile is no error.
  Status Revoke(const proto::WorkerRow& worker) {
    meter_.NoteRevoked(1);
    if (command_.notice_s > 0) {
      const Duration grace =
          std::max<Duration>(kGraceMin, FromSeconds(command_.notice_s / command_.scale.speedup));
      GiveNotice(run_, worker.worker, false, grace).status().Ignore("it left by itself");
    } else {
      ::kill(static_cast<pid_t>(worker.pid), SIGKILL);
    }
    return Scale({worker.type, -1, true});
  }

  const ReplayCommand& command_;
  const RunPaths& run_;
  const AvailabilityTrace& trace_;
  ReplayMeter meter_;
  Random random_{1};
};

void EndRun(const RunPaths& run) {
  AskToStop(run, false).Ignore("it has ended by itself");
  const TimePoint by = SystemTime().Now() + kPatienceToEnd;
  while (FileLock::IsHeld(run.lock()) && SystemTime().Now() < by) {
    ::poll(nullptr, 0, kLookMillis);
  }
}

Result<AvailabilityTrace> LoadTrace(const ReplayCommand& command) {
  PS_ASSIGN(const double unit_s, SecondsOfUnit(command.unit));
  PS_ASSIGN(const GapRule gaps, GapRuleOf(command.gaps));
  PS_ASSIGN(const std::string text, ReadFile(command.trace_path, kTraceBytesMax));
  PS_ASSIGN(const AvailabilityTrace trace, ParseTrace(text, command.trace_path, unit_s, gaps));
  return CutTrace(trace, command.scale);
}

}  // namespace

Status CheckReplayed(const proto::JobConfig& config) {
  // Their pids are of other machines, or of agents that would tell of a failure.
  if (config.launch.launcher != proto::LauncherKind::kLocal) {
    return Status::InvalidArgument(
        "launch.launcher is not local: a replay kills processes of this machine; use --set "
        "launch.launcher=local and leave the fields of the other launcher out");
  }
  return Status::Ok();
}

bool IsWorkerOf(int64_t pid, const std::string& run_root, WorkerId seat) {
  return provisioner::ArgumentOf(pid, "--seat") == std::to_string(seat.value) &&
         provisioner::ArgumentOf(pid, "--log-file").starts_with(run_root + "/");
}

Result<double> SecondsOfUnit(const std::string& unit) {
  if (unit == "ms") {
    return 0.001;
  }
  if (unit == "s") {
    return 1.0;
  }
  if (unit == "h") {
    return 3600.0;
  }
  return Status::InvalidArgument(fmt::format("--unit wants ms, s or h; got '{}'", Printable(unit)));
}

int RunReplay(const ReplayCommand& command, const Console& console, const RunRegistry& registry) {
  const Result<AvailabilityTrace> trace = LoadTrace(command);
  if (!trace.ok()) {
    return Misuse(console, trace.status());
  }
  const auto config = proto::LoadJobConfig(command.job_path, command.overrides);
  if (const Status fits = config.ok() ? CheckReplayed(*config) : config.status(); !fits.ok()) {
    return Misuse(console, fits);
  }
  const Result<RunPaths> run = StartRun(command, registry);
  if (!run.ok()) {
    return Fail(console, run.status());
  }
  ReplayReport begun;
  begun.job = command.job_path;
  begun.trace = command.trace_path;
  begun.speedup = command.scale.speedup;
  begun.loss_wanted = config->run.stop_at_loss;
  const InterruptGuard interrupts;
  Replayer replayer(command, *run, *trace, std::move(begun));
  const Status began = replayer.Begin(interrupts);
  if (began.ok()) {
    console.err(fmt::format(
        "the replay begins: {} in {}; psctl top shows it, Ctrl-C ends it\n",
        Plural(trace->steps.size() - 1, "change"),
        FormatDuration(trace->end_s)));
  }
  const Status followed = began.ok() ? replayer.Follow(interrupts) : began;
  EndRun(*run);
  if (!followed.ok()) {
    return Fail(console, followed);
  }
  const ReplayReport report = replayer.Finish();
  console.out(RenderReplay(report));
  const std::string plot =
      command.plot_path.empty() ? run->root + "/replay.svg" : command.plot_path;
  if (const Status written = WriteFileAtomically(plot, PlotReplay(report)); !written.ok()) {
    return Fail(console, written);
  }
  console.out("plot          " + plot + "\n");
  const std::string state = EndedRun(*run).state;
  if (state == "failed" || state == "killed") {
    return Fail(
        console,
        Status::Unavailable(fmt::format(
            "the run ended before its trace did ({}); psctl status {} says why",
            state,
            run->root)));
  }
  return kExitOk;
}

}  // namespace ps::psctl
