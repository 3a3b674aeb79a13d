#include "psctl/traces/replay_command.h"

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
#include "provisioner/simulator/fleet_policy.h"
#include "provisioner/simulator/spot_bound.h"
#include "ps/base/file.h"
#include "ps/base/random.h"
#include "ps/base/text.h"
#include "ps/base/time.h"
#include "psctl/cli/arguments.h"
#include "psctl/cli/interrupts.h"
#include "psctl/runs/runs_command.h"
#include "psctl/traces/replay_report.h"
#include "psctl/traces/replay_simulation.h"
#include "psctl/traces/trace_arguments.h"
#include "run/directory/control.h"
#include "run/planning/live_policy.h"
#include "run/planning/plan_arguments.h"
#include "run/report/run_events.h"

namespace ps::psctl {
namespace {

constexpr size_t kTraceBytesMax = size_t{64} << 20;
constexpr int kLookMillis = 100;
constexpr Duration kPatienceToBegin = std::chrono::seconds(120);
constexpr Duration kPatienceToEnd = std::chrono::seconds(120);
constexpr Duration kGraceMin = std::chrono::milliseconds(500);

/// Runs psctl itself with these arguments, on this terminal. Returns its exit code. `is_quiet`:
/// what it prints goes to stderr, since stdout is for somebody else.
Result<int> RunSelf(std::vector<std::string> arguments, bool is_quiet) {
  std::string program = "/proc/self/exe";
  std::vector<char*> words = {program.data()};
  for (std::string& argument : arguments) {
    words.push_back(argument.data());
  }
  words.push_back(nullptr);
  pid_t child = 0;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (is_quiet) {
    ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  }
  const int error =
      ::posix_spawn(&child, program.c_str(), &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return Status::Io(fmt::format("cannot start psctl train: {}", std::strerror(error)));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : run::kExitFailed;
}

std::set<std::string> RootsOf(const run::RunRegistry& registry) {
  std::set<std::string> roots;
  for (const run::RunningJob& job : registry.Find()) {
    roots.insert(job.paths.root);
  }
  return roots;
}

/// Starts the run of the job of that name, detached. Nothing replaces workers there but the trace.
Result<run::RunPaths> StartRun(
    const ReplayCommand& command, const std::string& name, const run::RunRegistry& registry) {
  const std::set<std::string> before = RootsOf(registry);
  std::vector<std::string> arguments = {"train", command.job_path, "--detach", "--no-refine"};
  for (const proto::ConfigOverride& setting : command.overrides) {
    arguments.insert(arguments.end(), {"--set", setting.key + "=" + setting.value});
  }
  // Nobody decides there but this process.
  arguments.insert(arguments.end(), {"--set", "provisioner.policy=none", "--set", "goal={}"});
  arguments.insert(arguments.end(), {"--set", "fleet.replace=false"});
  PS_ASSIGN(const int exit_code, RunSelf(std::move(arguments), command.is_json));
  if (exit_code != 0) {
    return Status::InvalidArgument("the run did not start");
  }
  for (const run::RunningJob& job : registry.Find()) {
    // Others may have started runs meanwhile.
    if (job.name == name && !before.contains(job.paths.root)) {
      return job.paths;
    }
  }
  return Status::NotFound("the run ended at once; psctl runs lists it");
}

/// What a replay's policy looks at and decides about; times are of the clock.
struct ReplayedPolicy {
  run::PolicyTypes types;
  run::LivePolicySettings settings;
};

/// The trace gives `nodes_max` machines at most.
ReplayedPolicy PolicyOf(const proto::JobConfig& config, double speedup, uint32_t nodes_max) {
  ReplayedPolicy policy = {run::PolicyTypesOf(config), run::PolicySettingsOf(config)};
  policy.settings.interval_s /= speedup;
  policy.settings.start_s /= speedup;
  policy.settings.hand_s = 0;  // the trace's own changes are not a person's
  policy.settings.detect_s = 0;
  if (config.provisioner.workers_max == 0) {
    policy.settings.workers_max = std::max(nodes_max, 1U);
  }
  return policy;
}

uint32_t MostNodes(const AvailabilityTrace& trace) {
  return std::ranges::max_element(trace.steps, {}, &TraceStep::nodes)->nodes;
}

/// Lets the fleet follow the trace, or a policy choose of what the trace has.
class Replayer {
 public:
  Replayer(
      const ReplayCommand& command,
      const run::RunPaths& run,
      const AvailabilityTrace& trace,
      const std::optional<ReplayedPolicy>& policy,
      ReplayReport begun)
      : command_(command),
        run_(run),
        trace_(trace),
        types_(policy ? policy->types : run::PolicyTypes()),
        begins_with_(std::min(
            trace.steps.front().nodes,
            policy ? policy->settings.workers_max : trace.steps.front().nodes)),
        meter_(std::move(begun)) {
    if (policy) {
      policy_.emplace(policy->settings, policy->types);
    }
  }

  /// Until training goes on with the fleet that the trace begins with. Errors: it does not.
  Status Begin(const InterruptGuard& interrupts) {
    const TimePoint by = SystemTime().Now() + kPatienceToBegin;
    bool is_asked = false;
    while (SystemTime().Now() < by && !interrupts.IsInterrupted()) {
      if (!run::FileLock::IsHeld(run_.lock())) {
        return Status::Unavailable(
            fmt::format("the run has ended before the replay began; psctl status {}", run_.root));
      }
      const Result<proto::JobStatus> status = run::FetchStatus(run_);
      if (status.ok() && status->state != proto::RunState::kStarting) {
        if (!is_asked) {
          PS_TRY(AskFor({.spot = begins_with_}));
          is_asked = true;
        }
        if (run::CountWorkers(*status) == begins_with_) {
          return Status::Ok();
        }
      }
      ::poll(nullptr, 0, kLookMillis);
    }
    return Status::DeadlineExceeded(
        fmt::format("the {} workers that the trace begins with did not all join", begins_with_));
  }

  /// Until the trace is over, the run is, or somebody interrupts. Errors: the fleet can't follow.
  Status Follow(const InterruptGuard& interrupts) {
    const TimePoint begin = SystemTime().Now();
    size_t next = 1;
    while (!interrupts.IsInterrupted() && run::FileLock::IsHeld(run_.lock())) {
      const Result<proto::JobStatus> status = run::FetchStatus(run_);
      // Not before the status: no interval of the policy ends there before its change is seen here.
      const double at_s = std::min(Seconds(SystemTime().Now() - begin), trace_.end_s);
      if (status.ok()) {
        meter_.Look(at_s, trace_.steps[next - 1].nodes, *status);
        if (next < trace_.steps.size() && trace_.steps[next].at_s <= at_s) {
          PS_TRY(Change(trace_.steps[next - 1].nodes, trace_.steps[next].nodes, *status));
          ++next;
          continue;
        }
        PS_TRY(LetDecide(at_s, trace_.steps[next - 1].nodes, *status));
      }
      if (at_s >= trace_.end_s || (status.ok() && status->state == proto::RunState::kDone)) {
        return Status::Ok();
      }
      ::poll(nullptr, 0, kLookMillis);
    }
    return Status::Ok();
  }

  ReplayReport Finish() const { return meter_.Finish(); }

  uint32_t begins_with() const { return begins_with_; }

 private:
  Status Scale(const proto::ScaleChange& change) const {
    return run::AskToScale(run_, {change}, proto::Asker::kReplay).status();
  }

  Status AskFor(const provisioner::FleetWish& fleet) const {
    return run::AskToScale(run_, run::ChangesFor(fleet, types_), proto::Asker::kReplay).status();
  }

  /// Workers that somebody started by hand, here or elsewhere, are no machines of the trace.
  bool IsOfTrace(const proto::WorkerRow& row) const {
    return row.incarnation != Incarnation() && !row.is_gone() &&
           row.state != proto::WorkerRowState::kDraining &&
           (types_.spot.empty() || row.type == types_.spot) &&
           IsWorkerOf(row.pid, run_.root, row.worker);
  }

  /// Each machine that the trace has is as likely to go as the others, whether it is used or not.
  Status Change(uint32_t from, uint32_t to, const proto::JobStatus& status) {
    if (to > from) {
      return policy_ ? Status::Ok() : AskFor({.spot = to});
    }
    std::vector<proto::WorkerRow> present;
    std::ranges::copy_if(status.workers, std::back_inserter(present), [this](const auto& row) {
      return IsOfTrace(row);
    });
    uint32_t held = policy_ ? run::PolicyFactsOf(status, types_).spot.wanted : from;
    for (uint32_t there = from; there > to; --there) {
      const uint64_t drawn = random_.Below(there);
      if (drawn < present.size()) {
        const auto victim = present.begin() + static_cast<std::ptrdiff_t>(drawn);
        PS_TRY(Revoke(*victim));
        present.erase(victim);
        --held;
      } else if (drawn < held) {  // it was still starting
        meter_.NoteRevoked(1);
        PS_TRY(Scale({types_.spot, -1, true}));
        --held;
      }
    }
    return Status::Ok();
  }

  /// Takes the machine of a worker. Whoever has gone meanwhile is no error.
  Status Revoke(const proto::WorkerRow& worker) {
    meter_.NoteRevoked(1);
    if (command_.notice_s > 0) {
      const Duration grace =
          std::max<Duration>(kGraceMin, FromSeconds(command_.notice_s / command_.scale.speedup));
      run::GiveNotice(run_, worker.worker, false, grace).status().Ignore("it left by itself");
    } else {
      ::kill(static_cast<pid_t>(worker.pid), SIGKILL);
    }
    return Scale({worker.type, -1, true});
  }

  /// Asks the policy, if there is one, and does what it says.
  Status LetDecide(double at_s, uint32_t available, const proto::JobStatus& status) {
    if (!policy_) {
      return Status::Ok();
    }
    const proto::FleetDecision decision =
        policy_->Look({.status = status, .memory = memory_, .available = available});
    memory_ = decision.memory.value_or(memory_);
    if (decision.why.empty()) {
      return Status::Ok();
    }
    const bool has_change = !decision.changes.empty();
    meter_.NoteDecision({at_s, has_change, decision.why, run::FleetOf(decision)});
    return has_change ? run::AskToScale(run_, decision.changes, proto::Asker::kReplay).status()
                      : Status::Ok();
  }

  const ReplayCommand& command_;
  const run::RunPaths& run_;
  const AvailabilityTrace& trace_;
  const run::PolicyTypes types_;
  const uint32_t begins_with_;
  std::optional<run::LivePolicy> policy_;
  proto::PolicyRecord memory_;  // the policy's
  ReplayMeter meter_;
  Random random_{1};
};

void EndRun(const run::RunPaths& run) {
  run::AskToStop(run, false).Ignore("it has ended by itself");
  const TimePoint by = SystemTime().Now() + kPatienceToEnd;
  while (run::FileLock::IsHeld(run.lock()) && SystemTime().Now() < by) {
    ::poll(nullptr, 0, kLookMillis);
  }
}

void SimulateBeside(const ReplaySetting& setting, ReplayReport* report) {
  Result<ReplaySimulation> simulation = SimulateReplay(setting, *report);
  if (simulation.ok()) {
    report->simulation = std::move(*simulation);
  } else {
    report->simulation_trouble = simulation.status().message();
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

Status CheckReplayPolicy(const std::string& name) {
  if (name == provisioner::kSpotBound) {
    return Status::InvalidArgument(
        "--policy oracle knows when each machine goes, which nobody knows of a run: take another "
        "one, or psctl simulate, where it says how much knowing would gain");
  }
  std::vector<std::string> known = {"none"};
  for (const std::string_view policy : provisioner::FleetPolicyNames()) {
    known.emplace_back(policy);
  }
  return name.empty() || std::ranges::count(known, name) > 0
             ? Status::Ok()
             : Status::InvalidArgument(
                   fmt::format("--policy wants one of {}; got '{}'", Join(known), Printable(name)));
}

namespace {

/// Trains the job on this machine, with as many workers as the trace has machines at each moment,
/// then ends it and says what that came to. Returns the exit code.
int RunReplay(
    const ReplayCommand& command, const run::Console& console, const run::RunRegistry& registry) {
  const Status policy_known = CheckReplayPolicy(command.policy);
  const Result<AvailabilityTrace> trace =
      policy_known.ok() ? LoadTrace(command) : Result<AvailabilityTrace>(policy_known);
  if (!trace.ok()) {
    return run::Misuse(console, trace.status());
  }
  std::vector<proto::ConfigOverride> settings = command.overrides;
  if (!command.policy.empty()) {
    settings.push_back({"provisioner.policy", command.policy});
  }
  const auto config = proto::LoadJobConfig(command.job_path, settings);
  if (const Status fits = config.ok() ? CheckReplayed(*config) : config.status(); !fits.ok()) {
    return run::Misuse(console, fits);
  }
  const Result<run::RunPaths> run = StartRun(command, config->name, registry);
  if (!run.ok()) {
    return run::Fail(console, run.status());
  }
  ReplayReport begun;
  begun.job = command.job_path;
  begun.trace = command.trace_path;
  begun.speedup = command.scale.speedup;
  begun.goal = ReplayGoalOf(*config);
  for (const proto::WorkerGroup& group : config->workers) {
    begun.step_s[group.type] = double{group.step_ms} / 1000;
  }
  std::optional<ReplayedPolicy> policy;
  if (config->provisioner.policy != proto::FleetPolicyKind::kNone) {
    policy = PolicyOf(*config, command.scale.speedup, MostNodes(*trace));
    begun.policy = policy->settings.policy;
    begun.interval_s = policy->settings.interval_s * command.scale.speedup;
  }
  const InterruptGuard interrupts;
  Replayer replayer(command, *run, *trace, policy, std::move(begun));
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
    return run::Fail(console, followed);
  }
  ReplayReport report = replayer.Finish();
  if (policy) {
    SimulateBeside(
        {*config, *trace, policy->settings, command.notice_s, replayer.begins_with()}, &report);
  }
  console.out(command.is_json ? JsonOfReplay(report) : RenderReplay(report));
  const std::string plot =
      command.plot_path.empty() ? run->root + "/replay.svg" : command.plot_path;
  if (const Status written = WriteFileAtomically(plot, PlotReplay(report)); !written.ok()) {
    return run::Fail(console, written);
  }
  if (!command.is_json) {
    console.out("plot          " + plot + "\n");
  }
  const std::string state = EndedRun(*run).state;
  if (state == "failed" || state == "killed") {
    return run::Fail(
        console,
        Status::Unavailable(fmt::format(
            "the run ended before its trace did ({}); psctl status {} says why",
            state,
            run->root)));
  }
  return run::kExitOk;
}

void AddArguments(ReplayCommand* command, Arguments* arguments) {
  AddTrace("TRACE", {&command->trace_path, &command->unit, &command->gaps}, arguments).Required();
  arguments->Add("JOB.json", &command->job_path, "Job file").Required();
  arguments->AddSettings(&command->overrides, "Change a field of the job");
  arguments->Add(
      "--speedup", &command->scale.speedup, "Seconds of the trace in one of the clock; 60");
  AddTracePart(&command->scale, arguments);
  arguments->AddText(
      "--notice",
      [command](const std::string& text) -> Status {
        command->notice_s = 0;
        if (text != "none") {
          PS_ASSIGN(command->notice_s, run::ParseDuration("--notice", text));
        }
        return Status::Ok();
      },
      "Before a machine goes, in the trace's time; none: no word; 2m");
  arguments
      ->Add("--policy", &command->policy, "Which machines are used, as provisioner.policy; all")
      .Value("NAME");
  arguments->Add("--plot", &command->plot_path, "Plot; replay.svg of the run if absent")
      .Value("FILE.svg");
  arguments->Add("--json", &command->is_json, "Print JSON");
}

int Run(const ReplayCommand& command, const Session& session) {
  return RunReplay(command, session.console, session.registry);
}

}  // namespace

constinit const Command kReplay = {
    .path = "replay",
    .group = Group::kMeasure,
    .help = "Train while workers come and go as a trace says",
    .examples =
        {{{"psctl replay trace.csv job.json --nodes 4", "at most 4 workers of this machine"}}},
    .declare = Declare<ReplayCommand, AddArguments, Run>};

}  // namespace ps::psctl
