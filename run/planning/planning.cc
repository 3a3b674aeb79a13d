#include "run/planning/planning.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "provisioner/model/prediction_interval.h"
#include "provisioner/planner/memory_fit.h"
#include "provisioner/planner/vcpu_quotas.h"
#include "provisioner/planner/zone_choice.h"
#include "provisioner/profile/fingerprint.h"
#include "provisioner/profile/local_steps.h"
#include "provisioner/report/plan_report.h"
#include "provisioner/strategies/revocable_fleets.h"
#include "ps/base/text.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/job/launcher_name.h"
#include "run/planning/market_prices.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/planned_exchange.h"
#include "run/planning/planning_files.h"
#include "run/planning/prepared_job.h"
#include "run/planning/price_age.h"
#include "run/planning/start_plan.h"
#include "run/planning/unseen_plan.h"
#include "run/report/job_memory.h"

namespace ps::run {
namespace {

constexpr double kMarginMax = 100;  // percent
constexpr int kAnswers = 4;         // the chosen plan and the next best

/// A profile holds for one model only. Notes what else is to be known of the two.
Result<PreparedJob> UseJob(const std::string& job_path, Planning* planning) {
  const proto::JobProfile& profile = planning->profile;
  std::vector<std::string>* const notes = &planning->notes;
  PS_ASSIGN(const proto::JobConfig written, proto::LoadJobConfig(job_path));
  PS_ASSIGN(PreparedJob job, PrepareJob(written, job_path, {}, ""));
  const proto::JobConfig& config = job.config;
  const std::string fingerprint = provisioner::ModelFingerprint(job.parts.model.tensors);
  if (fingerprint != profile.model_fingerprint) {
    return Status::InvalidArgument(fmt::format(
        "the profile is of another model than {}: {}, fingerprint '{}' against '{}'; profile this "
        "job with: psctl profile {}",
        job_path,
        Printable(profile.job),
        Printable(profile.model_fingerprint),
        fingerprint,
        job_path));
  }
  if (!provisioner::TrainsLike(config, profile.training_fingerprint)) {
    notes->push_back(
        "the job trains otherwise than when it was profiled (data, model, optimizer or train "
        "differ), so it may need other steps");
  }
  if (config.train.mode != proto::Mode::kAsync) {
    notes->push_back(
        "the job's workers wait for each other (train.mode), which the speed leaves out: expect "
        "less");
  }
  if (config.train.local_steps_by_speed) {
    notes->push_back(
        "with train.local_steps_by_speed slow workers exchange more often than is reckoned here, "
        "where all do alike: expect less speed where links are busy");
  }
  planning->own = provisioner::SchemeOf(config);
  planning->local_steps_max = provisioner::LocalStepsMost(config);
  planning->mode = proto::ModeName(config.train.mode);
  planning->launcher = proto::LauncherName(config.launch.launcher);
  planning->outlook.detect_s = config.fleet.max_detect_s;
  return job;
}

Status CheckTypes(
    const proto::Catalog& catalog, const std::string& flag, const std::vector<std::string>& types) {
  std::vector<std::string> known;
  for (const proto::InstanceType& type : catalog.types) {
    known.push_back(type.name);
  }
  for (const std::string& type : types) {
    if (catalog.Find(type) == nullptr) {
      const std::string nearest = NearestName(type, known);
      return Status::InvalidArgument(fmt::format(
          "{}: no type '{}' in the catalog{}",
          flag,
          Printable(type),
          nearest.empty() ? "; psctl catalog show lists them"
                          : "; did you mean '" + nearest + "'?"));
    }
  }
  return Status::Ok();
}

template <typename Item>
std::vector<std::string> TypesOf(const std::vector<Item>& items) {
  std::vector<std::string> types;
  for (const Item& item : items) {
    types.push_back(item.instance_type);
  }
  return types;
}

/// Reads the files and makes the models; the setup is the caller's.
Status Load(const PlanningCommand& command, Planning* planning) {
  if (command.loss != 0 && !(command.loss > 0)) {
    return Status::InvalidArgument("--loss wants the loss to reach, above 0, as in --loss 0.8");
  }
  if (!(command.contention_margin >= 0 && command.contention_margin <= kMarginMax)) {
    return Status::InvalidArgument(
        "--contention-margin wants percent from 0 to 100, as in --contention-margin 5");
  }
  if (command.contention_margin > 0 && !command.speed_model.starts_with("spotdnn")) {
    return Status::InvalidArgument(fmt::format(
        "--contention-margin lengthens the contention of --speed-model spotdnn; for the model {} "
        "ask for more --confidence",
        Printable(command.speed_model)));
  }
  if (!(command.confidence > 0 && command.confidence <= provisioner::kConfidenceMax)) {
    return Status::InvalidArgument(fmt::format(
        "--confidence has to be above 0 and at most {}, as in 0.9", provisioner::kConfidenceMax));
  }
  PS_ASSIGN(planning->catalog, LoadCatalog(command.catalog_path));
  TakeMarketPrices(command.prices, planning->today, &planning->catalog);
  PS_ASSIGN(planning->profile, LoadProfile(command.profile_path));
  planning->notes = command.notes;
  for (std::string& note : UseMeasured(planning->measured, &planning->profile)) {
    planning->notes.push_back(std::move(note));
  }
  PS_TRY(UseUnseen(command, planning));
  planning->own = planning->profile.Scheme();
  planning->launcher = command.launcher;
  std::optional<PreparedJob> job;
  if (!command.job_path.empty()) {
    PS_ASSIGN(job, UseJob(command.job_path, planning));
  }
  planning->starts = UseMeasuredStarts(planning->profile, planning->launcher, &planning->catalog);
  PS_TRY(ChooseScheme(command, planning));
  if (job) {
    PS_TRY(UseMemory(*job, planning));
  }
  PS_TRY(UseExchange(command, planning));
  planning->input.models.speed_model = command.speed_model;
  planning->input.models.workers_listed = command.workers_listed;
  planning->input.models.contention_margin = command.contention_margin / 100;
  return Status::Ok();
}

/// How fast the run gets on, by the models of a whole run.
Status MeasurePace(Planning* planning) {
  provisioner::PlanInput& input = planning->input;
  provisioner::Goal& goal = input.setup.goal;
  input.models.progress.loss = goal.loss_now;
  if (goal.steps_done == 0) {
    return Status::Ok();
  }
  provisioner::JobModelOptions options = input.models;
  options.instance_types.clear();  // those of the past
  options.left_out.clear();
  options.progress = {};
  PS_ASSIGN(
      const provisioner::JobModels models,
      provisioner::BuildJobModels(planning->catalog, planning->profile, options));
  provisioner::PlanSetup setup = input.setup;
  setup.all_run = true;
  setup.held.clear();
  setup.quotas.clear();
  setup.on_demand_quotas.clear();
  PS_ASSIGN(
      const provisioner::PlanProblem problem,
      provisioner::MakePlanProblem(planning->catalog, models, setup));
  std::vector<int> counts(models.speed->classes().size(), 0);
  int workers = 0;
  for (const provisioner::TypeCount& done : planning->done_by) {
    const int k = provisioner::FindClass(*models.speed, done);
    if (k < 0) {
      return Status::InvalidArgument(fmt::format(
          "the profile has no figures for {}, which --steps-done is of",
          Printable(done.instance_type)));
    }
    counts[static_cast<size_t>(k)] += done.count;
    workers += done.count;
  }
  if (models.loss == nullptr || problem.servers.empty() || workers == 0) {
    return Status::Ok();
  }
  const provisioner::ServerOffer& server = problem.servers.front();
  const provisioner::SpeedPrediction speed =
      models.speed->Predict(counts, {server.hosts_min, server.link_bytes_per_s});
  const provisioner::MeasuredPace pace = provisioner::PaceOf(
      *models.loss, provisioner::TraitsOf(speed, workers), goal.loss_now, goal.steps_done);
  input.models.progress.pace = pace.pace;
  goal.pace = pace.pace;
  planning->notes.push_back(fmt::format(
      "the run took {:.2f} times the steps that the profile says to loss {:g}; the plan counts on "
      "{:.2f} times",
      pace.ratio,
      goal.loss_now,
      pace.pace));
  return Status::Ok();
}

/// What revocations do to the plan, with notes on what is not known and what they break.
void AddRevocations(
    const Planning& planning, const provisioner::FleetChoice& choice, proto::Plan* plan) {
  Result<proto::PlanRevocations> revocations =
      provisioner::ExpectRevocations(planning.catalog, planning.problem, choice, planning.outlook);
  if (!revocations.ok()) {
    plan->notes.emplace_back(revocations.status().message());
    return;
  }
  plan->revocations = *std::move(revocations);
  const proto::PlanRevocations& outlook = plan->revocations;
  const bool is_by_speed = planning.objective == proto::Objective::kThroughputPerHour;
  if (!outlook.unknown.empty() && (is_by_speed || plan->seconds.value > 0)) {
    plan->notes.push_back(fmt::format(
        "revocations are left out of {}, since the catalog has no spot[].lifetimes of {}; "
        "--lifetimes takes published ones",
        is_by_speed ? "samples/s" : "time and cost",
        Join(outlook.unknown)));
  }
  if (outlook.seconds > 0 || (is_by_speed && outlook.samples_per_s > 0)) {
    plan->notes.push_back("lifetimes: " + Join(outlook.lifetimes_from));
  }
  if (outlook.lost_unreplaced > 0.005) {
    plan->notes.push_back(fmt::format(
        "without new machines all are revoked before the end with a chance of {}",
        FormatPercent(outlook.lost_unreplaced, 0)));
  }
  if (!(outlook.seconds > 0 && plan->seconds_max > 0)) {
    return;
  }
  const double start_s = choice.start_s;
  const double high_s = start_s + (outlook.seconds - start_s) * (plan->seconds.high - start_s) /
                                      (plan->seconds.value - start_s);
  if (high_s > plan->seconds_max) {
    plan->notes.push_back(fmt::format(
        "with revocations it takes up to {}, beyond the goal's {}: plan with a shorter --within, "
        "or with --market on-demand",
        FormatDuration(high_s),
        FormatDuration(plan->seconds_max)));
  }
}

/// Where the workers' time goes, and what a sample moves.
void AddExchange(
    const Planning& planning, const provisioner::FleetChoice& choice, proto::Plan* plan) {
  const provisioner::PlanProblem& problem = planning.problem;
  plan->computing = ComputingShare(problem, choice);
  const double samples = problem.local_steps * choice.speed.batch_mean;
  plan->push_bytes_per_sample = planning.models.push_bytes / samples;
  plan->pull_bytes_per_sample = planning.models.pull_bytes / samples;
}

Status MakeProblem(const PlanningCommand& command, Planning* planning) {
  provisioner::PlanInput& input = planning->input;
  input.catalog = &planning->catalog;
  input.profile = &planning->profile;
  if (!command.market.empty()) {
    PS_ASSIGN(input.setup.market, ParseMarket(command.market));
  }
  input.setup.goal.confidence = command.confidence;
  input.setup.goal.loss = command.loss;
  PS_TRY(CheckTypes(planning->catalog, "--types", input.models.instance_types));
  PS_TRY(CheckTypes(planning->catalog, "--without", input.models.left_out));
  PS_TRY(CheckTypes(planning->catalog, "--quota", TypesOf(input.setup.quotas)));
  PS_TRY(CheckTypes(planning->catalog, "--quota-on-demand", TypesOf(input.setup.on_demand_quotas)));
  PS_TRY(CheckTypes(planning->catalog, "--held", TypesOf(input.setup.held)));
  PS_TRY(CheckTypes(planning->catalog, "server", TypesOf(input.setup.servers)));
  if (input.setup.goal.loss_now > 0) {
    PS_TRY(MeasurePace(planning));
  }
  CountStart(planning);
  PS_TRY(NarrowToTracedZones(planning->spot_traces, &planning->catalog, &planning->notes));
  PS_ASSIGN(
      planning->models,
      provisioner::BuildJobModels(planning->catalog, planning->profile, input.models));
  PS_ASSIGN(
      planning->problem,
      provisioner::MakePlanProblem(planning->catalog, planning->models, input.setup));
  if (planning->problem.offers.empty() && !planning->problem.speed->classes().empty()) {
    return Status::InvalidArgument(
        "nothing is on offer: none of the types that the profile knows is sold as spot; "
        "try --market both");
  }
  PS_ASSIGN(
      planning->zoned, SplitByZones(planning->spot_traces, planning->catalog, &planning->problem));
  planning->problem.answers_max = kAnswers;
  return Status::Ok();
}

}  // namespace

Status PreparePlanning(const PlanningCommand& command, Planning* planning) {
  PS_TRY(Load(command, planning));
  return MakeProblem(command, planning);
}

std::string ListedRateNote(const Planning& planning, int workers) {
  const int listed = planning.input.models.workers_listed;
  return listed == 0 || workers <= listed
             ? ""
             : fmt::format(
                   "the job lists {} of these {} workers, so the servers take {}/{} of the rate "
                   "(train.lr_policy listed): {:.2f} times the steps are counted on",
                   listed,
                   workers,
                   listed,
                   workers,
                   static_cast<double>(workers) / listed);
}

double ComputingShare(
    const provisioner::PlanProblem& problem, const provisioner::FleetChoice& choice) {
  const auto [counts, step_s] = provisioner::StepsIn(problem, choice);
  double computing = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    const double compute_s = problem.speed->classes()[k].compute_s;
    computing += counts[k] * std::min(compute_s / step_s[k], 1.0);
  }
  return computing / provisioner::WorkersOf(choice.counts);
}

proto::PlanAlternative AlternativeOf(
    const provisioner::PlanProblem& problem,
    const proto::JobProfile& profile,
    const provisioner::FleetChoice& choice,
    const std::string& kind) {
  const proto::Plan plan = provisioner::PlanOf(problem, profile, choice, "");
  return {
      kind,
      plan.workers,
      plan.servers,
      plan.samples_per_s,
      plan.seconds,
      plan.usd,
      plan.local_steps};
}

proto::Plan PlanOf(
    const Planning& planning, const provisioner::FleetChoice& choice, const std::string& strategy) {
  const provisioner::PlanProblem& problem = planning.problem;
  proto::Plan plan = provisioner::PlanOf(problem, planning.profile, choice, strategy);
  if (problem.loss != nullptr && problem.goal.loss > 0) {
    plan.gains = provisioner::WhatMoreBuys(planning.input, problem, choice);
  }
  AddExchange(planning, choice, &plan);
  plan.traffic.zone_usd_per_gb = planning.catalog.traffic.zone_usd_per_gb;
  plan.traffic.egress_usd_per_gb = planning.catalog.traffic.egress_usd_per_gb;
  plan.push = planning.scheme.push == planning.own.push ? "" : planning.scheme.push;
  plan.pull = planning.scheme.pull == planning.own.pull ? "" : planning.scheme.pull;
  plan.notes = planning.notes;
  for (std::string& note : provisioner::BeyondProfile(
           planning.profile, problem.goal.loss, provisioner::WorkersOf(choice.counts))) {
    plan.notes.push_back(std::move(note));
  }
  if (std::string note = ListedRateNote(planning, provisioner::WorkersOf(choice.counts));
      !note.empty()) {
    plan.notes.push_back(std::move(note));
  }
  AddUnseenNotes(planning, &plan);
  plan.objective = planning.objective;
  AddStartNote(planning, &plan);
  AddRevocations(planning, choice, &plan);
  AddMeasuredStarts(planning, &plan);
  if (std::string note = provisioner::OverpromiseText(problem, planning.models.traffic, choice);
      !note.empty()) {
    plan.notes.push_back(std::move(note));
  }
  for (std::string& note :
       provisioner::MemoryNotes(planning.catalog, planning.models, problem, choice)) {
    plan.notes.push_back(std::move(note));
  }
  for (std::string& note : provisioner::TrafficNotes(planning.catalog, problem, plan)) {
    plan.notes.push_back(std::move(note));
  }
  for (std::string& note : provisioner::QuotaNotes(planning.catalog, planning.input.setup, plan)) {
    plan.notes.push_back(std::move(note));
  }
  for (std::string& note : PriceNotes(planning.catalog, plan, planning.today)) {
    plan.notes.push_back(std::move(note));
  }
  return plan;
}

Result<std::vector<int>> CountsByOffer(
    const provisioner::PlanProblem& problem, const std::vector<provisioner::TypeCount>& workers) {
  std::vector<int> counts(problem.offers.size(), 0);
  for (const provisioner::TypeCount& some : workers) {
    if (some.count == 0) {
      continue;
    }
    const int k = provisioner::FindClass(*problem.speed, some);
    const auto offer = std::ranges::find(problem.offers, k, &provisioner::Offer::worker_class);
    if (k < 0 || offer == problem.offers.end()) {
      return Status::NotFound(fmt::format(
          "the profile has no figures of {}, or the catalog no price, so nothing can be predicted "
          "of this fleet",
          Printable(some.instance_type)));
    }
    counts[static_cast<size_t>(offer - problem.offers.begin())] += some.count;
  }
  return counts;
}

}  // namespace ps::run
