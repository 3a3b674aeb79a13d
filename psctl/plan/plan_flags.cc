// The flags of `psctl plan` and `psctl predict`: what is asked, as requests of run/planning.

#include "psctl/plan/plan_command.h"
#include "psctl/runs/chosen_run.h"
#include "psctl/traces/trace_arguments.h"
#include "run/planning/plan_from_run.h"
#include "run/planning/planned_exchange.h"

namespace ps::psctl {
namespace {

void AddPlanning(run::PlanningCommand* command, Arguments* arguments) {
  arguments->Add("JOB.json", &command->job_path, "Job file, to check that the profile is of it");
  arguments
      ->Add(
          "--profile", &command->profile_path, "What is known of the job; ./profile.json if absent")
      .Value("FILE");
  arguments->Add("--catalog", &command->catalog_path, "Catalog; configs/catalog/aws.json if absent")
      .Value("FILE");
  const Argument loss = arguments->Add("--loss", &command->loss, "Training loss to reach");
  arguments->RefuseZero(
      loss, &command->loss, "--loss wants the loss to reach, above 0, as in --loss 0.8");
  arguments->Add(
      "--market",
      &command->market,
      "spot, on-demand, or both: the cheaper one of each type; spot if absent");
  arguments->Add(
      "--speed-model", &command->speed_model, "queue, spotdnn, spotdnn-prototype or ideal");
  arguments->Add(
      "--contention-margin",
      &command->contention_margin,
      "Percent by which spotdnn lengthens exchanges that contend; its paper uses 1 to 5");
  arguments->Add(
      "--confidence", &command->confidence, "At which limits hold and intervals are given; 0.9");
  const Argument local_steps = arguments->Add(
      "--local-steps",
      &command->local_steps,
      "Minibatches that a worker makes by itself between two exchanges; the job's if absent");
  arguments->RefuseZero(local_steps, &command->local_steps, run::LocalStepsWanted("--local-steps"));
  arguments->Add(
      "--push",
      &command->push,
      "What values are pushed as: f32, bf16, int8, int4 or topk:SHARE; as the job says if absent; "
      "plan chooses among several, as in f32,int8");
  arguments->Add(
      "--pull", &command->pull, "What they are pulled as: f32, bf16, int8 or int4; likewise");
  Argument push_factor = arguments->Add(
      "--push-bytes-factor",
      &command->push_factor,
      "Bytes of a push, as a multiple of the profile's, for an encoding without a name");
  push_factor.Excludes("--push");
  arguments->RefuseZero(push_factor, &command->push_factor, run::PushFactorWanted());
  arguments->Add(
      "--unseen",
      &command->has_unseen,
      "Reckon types that the profile has no figures of, by their devices");
  arguments
      ->Add(
          "--measured-on",
          &command->measured_on,
          "With --unseen: the device of a profiled type that the catalog lacks, as in local=V100, "
          "local=T4x4 or local=cpux16 for 16 vCPUs")
      .Value("TYPE=DEVICE[xCOUNT]")
      .Needs("--unseen");
  arguments
      ->Add(
          "--learn-from",
          &command->learn_from,
          "With --unseen: a profile of another job on several types, to learn from how these "
          "differ")
      .Value("FILE")
      .Needs("--unseen");
  arguments->Add("--json", &command->is_json, "Print the plan as JSON");
}

/// What may be used, and what is used already.
void AddFleet(run::PlanCommand* command, Arguments* arguments) {
  arguments->Add("--types", &command->types, "Types of workers to choose among; all if absent")
      .Value("TYPE,...");
  arguments->Add("--without", &command->without, "Types of workers and servers to leave out")
      .Value("TYPE,...");
  arguments->Add("--quota", &command->quotas, "Most of a type, as in g4dn.4xlarge=5")
      .Value("TYPE=COUNT");
  arguments
      ->Add(
          "--quota-vcpus",
          &command->vcpu_quotas,
          "vCPUs of a family of types together, as providers count them: "
          "P=64,Standard:on-demand=32")
      .Value("FAMILY=VCPUS");
  arguments
      ->Add(
          "--quota-on-demand",
          &command->on_demand_quotas,
          "Most of a type on demand beside its spot machines, as in g4dn.4xlarge=2")
      .Value("TYPE=COUNT");
  arguments
      ->Add(
          "--held",
          &command->held,
          "Running already and kept, with their age, as in g4dn.4xlarge=2@3h; new without one")
      .Value("TYPE[:MINIBATCH]=COUNT[@AGE]");
  arguments->Add("--drop-held", &command->drops_held, "The plan need not keep them");
  const Argument takeover = arguments->Add(
      "--takeover", &command->takeover, "What a change of the held fleet costs, as in 30s");
  arguments
      ->Add("--run", &command->run, "Run that goes on, or has ended: plan with what is left of it")
      .Value("RUN");
  const Argument from_loss = arguments->Add(
      "--from-loss",
      &command->from_loss,
      "Loss that the run is down to; --within and --budget are what is left");
  const Argument steps_done = arguments->Add(
      "--steps-done", &command->steps_done, "Steps that it took, of all workers together");
  arguments
      ->Add("--done-by", &command->done_by, "Fleet that made those steps; the held one if absent")
      .Value("TYPE[:MINIBATCH]=COUNT");
  arguments->Add("--servers", &command->servers, "Servers to choose among, as in m5.xlarge=1..4")
      .Value("TYPE=HOSTS");
  arguments->Check([=] {
    command->has_takeover = takeover.is_given();
    command->has_from_loss = from_loss.is_given();
    command->has_steps_done = steps_done.is_given();
    return Status::Ok();
  });
}

/// How machines came and went until now, and are revoked from now on.
void AddAvailability(run::PlanCommand* command, Arguments* arguments) {
  AddTrace(
      "--trace",
      {&command->trace_path, &command->unit, &command->gaps},
      arguments,
      "Of parcae: machines that could be had until now, as psctl forecast reads them")
      .Value("TRACE");
  arguments
      ->Add(
          "--capacity",
          &command->capacities,
          "Spot machines of a type, or of it in a zone, that could be had, as recorded: the plan "
          "is "
          "the cheapest that keeps its goal along them at --confidence")
      .Value("TYPE[@ZONE]=TRACE");
  arguments->Add("--at", &command->at, "Now, in the trace, as in 5h30m; its end if absent");
  arguments
      ->Add("--history", &command->history, "Of parcae, instead of a trace: counts, as in 12,11,13")
      .Value("COUNT,...");
  arguments->Add(
      "--interval", &command->interval, "Of parcae: from one count to the next; 60s if absent");
  arguments->Add(
      "--start-up",
      &command->start_up,
      "Until a machine that is asked for is up, with image and data; the catalog's if absent, or "
      "as measured, or for one in the place of a revoked one 2m");
  arguments
      ->Add(
          "--lifetimes",
          &command->lifetimes,
          "Published ones for types without any in the catalog, as in V100@us-central1")
      .Value("DEVICE[@REGION]");
  arguments->Add(
      "--ignore-revocations",
      &command->ignores_revocations,
      "Choose as if no machine were revoked; what revocations do is said all the same");
}

void AddPlan(run::PlanCommand* command, Arguments* arguments) {
  AddPlanning(&command->common, arguments);
  const Argument within =
      arguments->Add("--within", &command->within, "Longest time, as in 40m, 2h, 1h30m");
  const Argument budget = arguments->Add("--budget", &command->budget_usd, "Most to spend, USD");
  AddFleet(command, arguments);
  arguments->Add(
      "--strategy",
      &command->strategy,
      "exact, spotdnn, spotdnn-prototype, exhaustive, ideal, homogeneous, on-demand, deepvm or "
      "parcae");
  AddAvailability(command, arguments);
  arguments->Add(
      "--objective",
      &command->objective,
      "cost; time: soonest at the loss; throughput-per-hour: most samples/s for --price-per-hour");
  arguments->Add(
      "--price-per-hour",
      &command->usd_per_hour,
      "Most to pay for an hour, USD; of deepvm and throughput-per-hour, which need no loss");
  const Argument local_steps_max = arguments->Add(
      "--local-steps-max",
      &command->local_steps_max,
      "Choose train.local_steps too, up to so many; up to the job's own if absent");
  arguments->RefuseZero(
      local_steps_max, &command->local_steps_max, run::LocalStepsWanted("--local-steps-max"));
  const Argument effort = arguments->Add(
      "--effort", &command->effort, "Longest search, as in 30s; some ten seconds each if absent");
  arguments->Add("--explain", &command->explains, "Show every type's step and price as well")
      .Excludes("--json");
  arguments->Add("--plot", &command->plot_path, "Draw speed and cost over the fleet's size")
      .Value("FILE.svg");
  arguments
      ->Add("-o,--output", &command->output, "File for the plan, which psctl train --plan runs")
      .Value("FILE");
  arguments->Check([=] {
    command->has_within = within.is_given();
    command->has_budget = budget.is_given();
    command->has_effort = effort.is_given();
    return Status::Ok();
  });
}

void AddPredict(run::PredictCommand* command, Arguments* arguments) {
  AddPlanning(&command->common, arguments);
  arguments->Add("--fleet", &command->fleet, "Workers, as in g4dn.4xlarge=2,g3.8xlarge:1024=4")
      .Value("TYPE[:MINIBATCH]=COUNT")
      .Required();
  arguments->Add("--ps", &command->servers, "Servers, as in m5.xlarge=1").Required();
}

int Plan(const run::PlanCommand& command, const Session& session) {
  if (command.run.empty()) {
    return RunPlan(command, session.today, session.console);
  }
  const Result<run::RunPaths> run = ChooseRun(command.run, session.registry);
  if (!run.ok()) {
    return run::Fail(session.console, run.status());
  }
  const Result<run::PlanCommand> filled = run::FillFromRun(command, *run);
  return filled.ok() ? RunPlan(*filled, session.today, session.console)
                     : run::Fail(session.console, filled.status());
}

int Predict(const run::PredictCommand& command, const Session& session) {
  return RunPredict(command, session.today, session.console);
}

}  // namespace

constinit const Command kPlan = {
    .path = "plan",
    .group = Group::kPlan,
    .help = "Choose the cheapest fleet that reaches a loss in time",
    .examples =
        {{{"psctl plan job.json --loss 0.8 --within 40m", "the cheapest fleet that gets there"}}},
    .declare = Declare<run::PlanCommand, AddPlan, Plan>};

constinit const Command kPredict = {
    .path = "predict",
    .group = Group::kPlan,
    .help = "Say what a fleet would do",
    .examples = {{{"psctl predict job.json --fleet g4dn.4xlarge=2 --ps m5.xlarge", "what if"}}},
    .declare = Declare<run::PredictCommand, AddPredict, Predict>};

}  // namespace ps::psctl
