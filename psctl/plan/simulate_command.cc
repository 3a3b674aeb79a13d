#include "psctl/plan/simulate_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "provisioner/planner/memory_fit.h"
#include "provisioner/simulator/simulated_run.h"
#include "provisioner/simulator/simulation.h"
#include "provisioner/simulator/spot_bound.h"
#include "ps/base/file.h"
#include "ps/base/logger.h"
#include "ps/base/text.h"
#include "ps/proto/job/job_config.h"
#include "psctl/cli/arguments.h"
#include "psctl/plan/goal_policy.h"
#include "psctl/plan/simulate_view.h"
#include "psctl/traces/replay_command.h"
#include "psctl/traces/trace_arguments.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/planning.h"
#include "run/planning/start_plan.h"

namespace ps::psctl {
namespace {

using provisioner::SimulatedJob;
using provisioner::SimulationResult;

// From a notice to the worker's free seat, as measured: docs/measurements/fleet.md.
constexpr double kLeaveS = 0.02;
// A provider's notice, as psctl replay gives it.
constexpr double kNoticeS = 120;
constexpr uint32_t kSeedsMax = 1000;
constexpr size_t kSimulatedBytesMax = size_t{64} << 20;

std::string WorkersWanted() {
  return fmt::format("--workers wants a number from 1 to {}, as in --workers 20", kTraceNodesMax);
}

Status CheckSimulated(const SimulateCommand& command) {
  if (command.seeds < 1 || command.seeds > kSeedsMax) {
    return Status::InvalidArgument(
        fmt::format("--seeds wants a number from 1 to {}, as in --seeds 5", kSeedsMax));
  }
  if (command.workers > kTraceNodesMax) {
    return Status::InvalidArgument(WorkersWanted());
  }
  const std::pair<const char*, double> numbers[] = {
      {"--samples", command.samples},
      {"--spot-usd", command.spot_usd},
      {"--on-demand-usd", command.on_demand_usd},
      {"--egress-usd-per-gb", command.egress_usd_per_gb},
      {"--launch-failures", command.launch_failures}};
  for (const auto& [flag, value] : numbers) {
    if (!(value >= 0) || !std::isfinite(value)) {
      return Status::InvalidArgument(fmt::format("{} wants a number above 0", flag));
    }
  }
  if (command.launch_failures >= 1) {
    return Status::InvalidArgument("--launch-failures wants a share below 1, as in 0.1");
  }
  if (command.egress_usd_per_gb > 0 && command.profile_path.empty()) {
    return Status::InvalidArgument(
        "--egress-usd-per-gb needs a --profile, which says how much a step sends and fetches");
  }
  if (command.engine != "cores" && command.engine != "rates") {
    return Status::InvalidArgument(fmt::format(
        "no engine '{}'; allowed: cores (the production coordinator), rates",
        Printable(command.engine)));
  }
  std::vector<std::string_view> names = provisioner::FleetPolicyNames();
  names.insert(names.end(), {provisioner::kSpotBound, kGoalPolicy});
  for (const std::string& policy : command.policies) {
    if (std::ranges::count(names, policy) == 0) {
      const std::string nearest = NearestName(policy, names);
      return Status::InvalidArgument(fmt::format(
          "no policy '{}'; {}",
          Printable(policy),
          nearest.empty() ? "there are " + Join(names) : "did you mean '" + nearest + "'?"));
    }
  }
  if (!command.log_path.empty() &&
      (command.engine != "cores" || command.policies.size() != 1 || command.seeds != 1 ||
       command.policies.front() == provisioner::kSpotBound)) {
    return Status::InvalidArgument(
        "--log is the coordinator's of one run: give it one --policy but oracle, one seed, and "
        "engine cores");
  }
  if (command.within_s > 0 && command.samples == 0) {
    return Status::InvalidArgument("--within is the time for a goal: say --samples too");
  }
  if (command.job_path.empty() && command.profile_path.empty()) {
    return Status::InvalidArgument(
        "nothing says how fast a worker is: give a JOB.json, or --profile with --type and --ps");
  }
  if (command.profile_path.empty() && !(command.type.empty() && command.servers.empty())) {
    return Status::InvalidArgument("--type and --ps are of a --profile, which is missing");
  }
  return Status::Ok();
}

/// Speeds and prices by the profile and the catalog.
Status UseProfile(
    const SimulateCommand& command, uint32_t workers, SimulatedJob* job, std::string* start_note) {
  if (command.type.empty() || command.servers.empty()) {
    return Status::InvalidArgument(
        "--profile also wants --type and --ps, as in --type g4dn.4xlarge --ps m5.xlarge=1");
  }
  run::Planning planning("");
  PS_ASSIGN(planning.input.setup.servers, run::ParseServerRanges("--ps", {command.servers}));
  const auto& servers = planning.input.setup.servers;
  if (servers.size() != 1 || servers.front().hosts_min != servers.front().hosts_max) {
    return Status::InvalidArgument("--ps wants one type and a number, as in m5.xlarge=1");
  }
  planning.input.setup.goal.seconds_max = std::numeric_limits<double>::infinity();
  planning.input.setup.goal.usd_max = std::numeric_limits<double>::infinity();
  planning.input.models.instance_types = {command.type};
  run::PlanningCommand plan;
  plan.job_path = command.job_path;
  plan.profile_path = command.profile_path;
  plan.catalog_path = command.catalog_path;
  plan.market = "both";
  PS_TRY(run::PreparePlanning(plan, &planning));
  PS_TRY(provisioner::CheckServerMemory(
      planning.problem.servers.front(), static_cast<int>(workers), servers.front().hosts_min));
  const proto::InstanceType& type = *planning.catalog.Find(command.type);
  if (type.spot.empty() && command.spot_usd == 0 && command.prices_path.empty()) {
    return Status::InvalidArgument(fmt::format(
        "the catalog has no 'spot' price of {}: add one, or give --spot-usd or --prices",
        type.name));
  }
  for (const proto::SpotPrice& price : type.spot) {
    job->spot_usd_per_hour = job->spot_usd_per_hour == 0
                                 ? price.usd_per_hour
                                 : std::min(job->spot_usd_per_hour, price.usd_per_hour);
  }
  job->on_demand_usd_per_hour = type.on_demand_usd_per_hour;
  job->servers_usd_per_hour =
      servers.front().hosts_min * planning.problem.servers.front().usd_per_hour;
  if (command.start_s == SimulateCommand::kStartUnsaid) {
    job->start_s = run::StartSecondsOf(planning, type.name, std::nullopt);
    *start_note = run::StartNoteOf(planning, type.name);
  }
  const provisioner::SpeedModel& speed = *planning.problem.speed;
  const provisioner::ServerSide side = {
      servers.front().hosts_min, planning.problem.servers.front().link_bytes_per_s};
  std::vector<int> counts(speed.classes().size(), 0);
  for (uint32_t n = 1; n <= workers; ++n) {
    counts.front() = static_cast<int>(n);
    const double rate = speed.Predict(counts, side).samples_per_s;
    job->samples_per_s.push_back(std::max(job->samples_per_s.back(), rate));
  }
  const double step_samples = speed.classes().front().samples * planning.problem.local_steps;
  job->step_samples = step_samples;
  job->lost_s = step_samples / job->samples_per_s[1];
  if (command.egress_usd_per_gb > 0) {
    const double step_bytes = planning.models.push_bytes + planning.models.pull_bytes;
    if (!(step_bytes > 0)) {
      return Status::InvalidArgument(fmt::format(
          "{}: 'push_bytes' and 'pull_bytes' do not say what a step sends and fetches, which "
          "--egress-usd-per-gb needs",
          command.profile_path));
    }
    job->egress_usd_per_sample = step_bytes / step_samples / 1e9 * command.egress_usd_per_gb;
  }
  return Status::Ok();
}

/// The first workers of the job, as they emulate other machines.
Status UseJob(
    const std::string& path, const proto::JobConfig& config, uint32_t workers, SimulatedJob* job) {
  if (config.workers.empty() || !(config.workers.front().step_ms > 0)) {
    return Status::InvalidArgument(fmt::format(
        "{}: workers[0].step_ms does not say how long a step takes; give a --profile (psctl "
        "profile {} measures one), with --type and --ps",
        path,
        path));
  }
  const proto::WorkerGroup& group = config.workers.front();
  const double step_s = static_cast<double>(group.step_ms) / 1000;
  const uint32_t minibatch = group.minibatch > 0 ? group.minibatch : config.train.minibatch;
  for (uint32_t n = 1; n <= workers; ++n) {
    job->samples_per_s.push_back(n * (minibatch / step_s));
  }
  job->step_samples = double{1} * minibatch * config.train.local_steps;
  job->lost_s = step_s * config.train.local_steps;
  job->spot_usd_per_hour = static_cast<double>(group.usd_per_hour);
  return Status::Ok();
}

/// `start_note`: where the start of a machine comes from, if it was measured.
Result<SimulatedJob> JobOf(
    const SimulateCommand& command, uint32_t workers, std::string* start_note) {
  SimulatedJob job;
  job.samples_per_s = {0};
  if (command.job_path.empty()) {
    PS_TRY(UseProfile(command, workers, &job, start_note));
  } else {
    PS_ASSIGN(const proto::JobConfig config, proto::LoadJobConfig(command.job_path));
    job.mode = config.train.mode;
    PS_TRY(
        command.profile_path.empty() ? UseJob(command.job_path, config, workers, &job)
                                     : UseProfile(command, workers, &job, start_note));
  }
  if (command.start_s != SimulateCommand::kStartUnsaid) {
    job.start_s = command.start_s;
  }
  job.detect_s = command.has_notice ? 0 : command.detect_s;
  job.lost_s = command.has_notice ? std::min(kLeaveS, job.lost_s) : job.lost_s;
  job.notice_s = command.has_notice ? kNoticeS : 0;
  job.launch_failures = command.launch_failures;
  job.samples_wanted = command.samples;
  job.deadline_s = command.within_s;
  job.spot_usd_per_hour = command.spot_usd > 0 ? command.spot_usd : job.spot_usd_per_hour;
  job.on_demand_usd_per_hour =
      command.on_demand_usd > 0 ? command.on_demand_usd : job.on_demand_usd_per_hour;
  return job;
}

/// Prices over time, where a file has them.
Status UsePrices(const SimulateCommand& command, double unit_s, SimulatedJob* job) {
  if (command.prices_path.empty()) {
    return Status::Ok();
  }
  PS_ASSIGN(const std::string text, ReadFile(command.prices_path, kSimulatedBytesMax));
  PS_ASSIGN(const GapRule gaps, GapRuleOf(command.gaps));
  PS_ASSIGN(
      const std::vector<PriceLine> whole, ParsePrices(text, command.prices_path, unit_s, gaps));
  PS_ASSIGN(
      const std::vector<PriceLine> prices,
      CutPrices(whole, command.prices_path, command.part.from_hours * 3600));
  for (const PriceLine& price : prices) {
    job->spot_prices.push_back({price.at_s, price.usd});
  }
  return Status::Ok();
}

/// The goal of a job that is simulated by a profile, which says how its loss falls; null: it has
/// none. What the flags do not say of samples and time is the goal's.
Result<std::unique_ptr<SimulatedGoal>> GoalOf(const SimulateCommand& command, uint32_t workers) {
  const bool is_named = std::ranges::count(command.policies, kGoalPolicy) > 0;
  std::unique_ptr<SimulatedGoal> none;
  if (command.job_path.empty() || (command.profile_path.empty() && !is_named)) {
    return is_named ? Result<std::unique_ptr<SimulatedGoal>>(Status::InvalidArgument(
                          "the policy 'goal' needs a JOB.json, whose goal is planned for"))
                    : std::move(none);
  }
  PS_ASSIGN(const proto::JobConfig config, proto::LoadJobConfig(command.job_path));
  if (config.goal.loss > 0) {
    return SimulatedGoal::Make(command, config, workers);
  }
  return is_named ? Result<std::unique_ptr<SimulatedGoal>>(Status::InvalidArgument(fmt::format(
                        "{}: the policy 'goal' needs goal.loss", Printable(command.job_path))))
                  : std::move(none);
}

/// All that the job and the flags have figures for, if nobody has named any.
std::vector<std::string> PoliciesOf(
    const SimulateCommand& command, const SimulatedJob& job, bool has_goal) {
  if (!command.policies.empty()) {
    return command.policies;
  }
  std::vector<std::string> policies;
  for (const std::string_view name : provisioner::FleetPolicyNames()) {
    if (name != "deadline" || job.deadline_s > 0) {
      policies.emplace_back(name);
    }
  }
  policies.emplace_back(provisioner::kSpotBound);
  if (has_goal) {
    policies.emplace_back(kGoalPolicy);
  }
  return policies;
}

/// One policy, with one draw of who goes.
Result<SimulationResult> RunOnce(
    const SimulateCommand& command,
    const SimulatedJob& job,
    std::span<const provisioner::SpotMachine> machines,
    double end_s,
    const std::string& policy,
    const SimulatedGoal* goal) {
  if (policy == provisioner::kSpotBound) {
    const double beyond_s =
        command.engine == "cores"
            ? std::min(job.notice_s, provisioner::LongestStepSeconds(job, end_s, {}))
            : 0;
    return provisioner::SpotBound(job, machines, end_s, beyond_s);
  }
  std::unique_ptr<provisioner::FleetPolicy> made;
  if (policy == kGoalPolicy) {
    made = goal->MakePolicy(job);
  } else {
    PS_ASSIGN(made, provisioner::MakeFleetPolicy(policy, job));
  }
  if (command.engine == "rates") {
    return provisioner::Simulate(job, machines, end_s, made.get());
  }
  std::unique_ptr<LogSink> log;
  if (!command.log_path.empty()) {
    PS_ASSIGN(log, MakeFileSink(command.log_path, LogLevel::kInfo));
  }
  return provisioner::SimulateWithCores(
      job, machines, end_s, made.get(), {.seed = job.failure_seed, .log = log.get()});
}

Status RunPolicies(
    const SimulateCommand& command,
    const AvailabilityTrace& trace,
    const SimulatedGoal* goal,
    Judgement* judgement) {
  std::vector<provisioner::CapacityStep> steps;
  for (const TraceStep& step : trace.steps) {
    steps.push_back({step.at_s, step.nodes});
  }
  SimulatedJob& job = judgement->job;
  if (command.engine == "cores") {
    // A policy that promises has to know how long a step is, and that the last ones end apart.
    job.lost_s = std::max(job.lost_s, 2 * provisioner::SimulatedStepSeconds(job, trace.end_s, {}));
  }
  for (const std::string& name : PoliciesOf(command, job, goal != nullptr)) {
    PolicyRuns policy = {.name = name, .runs = {}};
    for (uint32_t seed = 1; seed <= command.seeds; ++seed) {
      const auto machines = provisioner::MachinesOf(steps, trace.end_s, seed);
      job.failure_seed = seed;
      PS_ASSIGN(SimulationResult result, RunOnce(command, job, machines, trace.end_s, name, goal));
      policy.runs.push_back(std::move(result));
    }
    judgement->policies.push_back(std::move(policy));
  }
  return Status::Ok();
}

Result<Judgement> Judge(const SimulateCommand& command) {
  PS_TRY(CheckSimulated(command));
  PS_ASSIGN(const double unit_s, SecondsOfUnit(command.unit));
  PS_ASSIGN(const GapRule gaps, GapRuleOf(command.gaps));
  PS_ASSIGN(const std::string text, ReadFile(command.trace_path, kSimulatedBytesMax));
  PS_ASSIGN(const AvailabilityTrace whole, ParseTrace(text, command.trace_path, unit_s, gaps));
  PS_ASSIGN(const AvailabilityTrace trace, CutTrace(whole, command.part));
  Judgement judgement;
  judgement.trace_s = trace.end_s;
  for (const TraceStep& step : trace.steps) {
    judgement.most = std::max(judgement.most, step.nodes);
  }
  const uint32_t workers = command.workers > 0 ? command.workers : judgement.most;
  if (workers == 0) {
    return Status::InvalidArgument(
        fmt::format("{}: there never is a machine in it", command.trace_path));
  }
  PS_ASSIGN(judgement.job, JobOf(command, workers, &judgement.start_note));
  PS_ASSIGN(const std::unique_ptr<SimulatedGoal> goal, GoalOf(command, workers));
  if (goal != nullptr && command.samples == 0) {
    judgement.job.samples_wanted = goal->samples_wanted();
    judgement.job.deadline_s = command.within_s > 0 ? command.within_s : goal->within_s();
  }
  PS_TRY(UsePrices(command, unit_s, &judgement.job));
  PS_TRY(RunPolicies(command, trace, goal.get(), &judgement));
  return judgement;
}

/// Judges policies on a trace, in virtual time. Returns the exit code.
int RunSimulate(const SimulateCommand& command, const run::Console& console) {
  const Result<Judgement> judgement = Judge(command);
  if (!judgement.ok()) {
    return run::Misuse(console, judgement.status());
  }
  console.out(
      command.is_json ? JsonOfJudgement(command, *judgement)
                      : RenderJudgement(command, *judgement));
  if (!command.plot_path.empty()) {
    const Status written =
        WriteFileAtomically(command.plot_path, PlotJudgement(command, *judgement));
    if (!written.ok()) {
      return run::Fail(console, written);
    }
    if (!command.is_json) {
      console.out("plot          " + command.plot_path + "\n");
    }
  }
  return run::kExitOk;
}

void AddArguments(SimulateCommand* command, Arguments* arguments) {
  arguments->Add("JOB.json", &command->job_path, "Job file; its first workers' step_ms counts");
  AddTrace("--trace", {&command->trace_path, &command->unit, &command->gaps}, arguments)
      .Value("FILE")
      .Required();
  AddTracePart(&command->part, arguments);
  arguments
      ->Add(
          "--policy",
          &command->policies,
          "reactive, hold, parcae, standby, deadline, oracle, goal; all if absent")
      .Separated()
      .Value("NAME,...");
  arguments->Add("--profile", &command->profile_path, "Speeds by a profile, with --type, --ps")
      .Value("FILE");
  arguments->Add("--catalog", &command->catalog_path, "Catalog; configs/catalog/aws.json")
      .Value("FILE");
  arguments->Add("--type", &command->type, "Of the workers, as in g4dn.4xlarge");
  arguments->Add("--ps", &command->servers, "Hosts of servers, as in m5.xlarge=1");
  const Argument workers = arguments->Add(
      "--workers", &command->workers, "At most; the most machines of the trace if absent");
  arguments->RefuseZero(workers, &command->workers, WorkersWanted());
  arguments->AddDurationOrZero(
      "--start-up",
      &command->start_s,
      "Until a machine's worker takes part; the catalog's, as measured, or 2m");
  arguments->AddDurationOrZero(
      "--detect", &command->detect_s, "Until another one has a revoked worker's seat; at once");
  arguments->Add("--notice", &command->has_notice, "Revocations are announced: no step is lost");
  const Argument samples =
      arguments->Add("--samples", &command->samples, "To train; to the trace's end if absent");
  arguments->RefuseZero(samples, &command->samples, "--samples wants a number above 0");
  arguments->AddDuration("--within", &command->within_s, "Deadline of --samples, as in 6h");
  arguments->Add("--spot-usd", &command->spot_usd, "Price of an hour; the catalog's or job's");
  arguments->Add("--on-demand-usd", &command->on_demand_usd, "The same on demand");
  arguments->Add("--prices", &command->prices_path, "TIME,USD lines: spot prices over the trace")
      .Value("FILE");
  arguments->Add(
      "--egress-usd-per-gb",
      &command->egress_usd_per_gb,
      "Of what a profile's workers send, fetch");
  arguments->Add(
      "--launch-failures", &command->launch_failures, "Share of spot starts that fail, as in 0.1");
  arguments->Add("--seeds", &command->seeds, "Draws of who goes; the means are shown; 1");
  arguments->Add(
      "--engine", &command->engine, "cores (the production coordinator) or rates; cores if absent");
  arguments->Add("--log", &command->log_path, "The coordinator's log, of one policy and seed")
      .Value("FILE");
  arguments->Add("--plot", &command->plot_path, "Plot").Value("FILE.svg");
  arguments->Add("--json", &command->is_json, "Print JSON");
}

int Run(const SimulateCommand& command, const Session& session) {
  return RunSimulate(command, session.console);
}

}  // namespace

constinit const Command kSimulate = {
    .path = "simulate",
    .group = Group::kMeasure,
    .help = "Judge policies of a fleet on a trace, in virtual time",
    .examples =
        {{{"psctl simulate job.json --trace trace.csv",
           "how policies of a fleet would have done"}}},
    .declare = Declare<SimulateCommand, AddArguments, Run>};

}  // namespace ps::psctl
