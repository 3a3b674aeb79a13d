#include "provisioner/report/plan_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "provisioner/model/prediction_interval.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

double LimitOrZero(double limit) {
  return std::isfinite(limit) ? limit : 0;
}

std::vector<proto::PlanWorkers> WorkersOf(const PlanProblem& problem, const FleetChoice& choice) {
  std::vector<proto::PlanWorkers> workers;
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    if (choice.counts[i] == 0) {
      continue;
    }
    const Offer& offer = problem.offers[i];
    const WorkerClass& worker = problem.speed->classes()[static_cast<size_t>(offer.worker_class)];
    const WorkerTerms terms = TermsOf(problem, choice, i);
    workers.push_back(
        {worker.name,
         offer.market,
         choice.counts[i],
         static_cast<int>(worker.samples),
         worker.compute_s,
         worker.link_bytes_per_s,
         terms.usd_per_hour,
         std::min(choice.counts[i], RunningOf(problem, i)),
         terms.zone});
  }
  return workers;
}

constexpr uint64_t kPointEffort = 10'000'000;  // a tenth of a second or so

/// The fastest fleet of a problem, whatever it costs.
PlanAnswer SolveForTime(const PlanProblem& problem) {
  constexpr double kUsdPerHour = 3600;
  PlanProblem changed = problem;
  for (Offer& offer : changed.offers) {
    offer.usd_per_hour = 0;
    offer.places.clear();
  }
  for (ServerOffer& server : changed.servers) {
    server.usd_per_hour = kUsdPerHour / server.hosts_max;
    server.billed_s_min = 0;
  }
  return SolveExactly(changed, {.gap = 1e-3});
}

}  // namespace

std::string OverpromiseText(
    const PlanProblem& problem, const JobTraffic& traffic, const FleetChoice& choice) {
  constexpr double kSlack = 1e-6;  // of models that know the limit
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  const double bytes_per_s = choice.speed.steps_per_s / traffic.local_steps *
                             std::max(traffic.push_bytes, traffic.pull_bytes);
  const double carried = choice.server_hosts * server.link_bytes_per_s;
  if (bytes_per_s <= carried * (1 + kSlack)) {
    return "";
  }
  return fmt::format(
      "the {} model promises {:.0f} % of what the servers' network carries each way: expect less "
      "speed, or plan with --speed-model queue",
      problem.speed->name(),
      std::ceil(100 * bytes_per_s / carried));
}

bool HasSeveralMinibatches(const SpeedModel& speed) {
  std::vector<std::string> names;
  for (const WorkerClass& worker : speed.classes()) {
    names.push_back(worker.name);
  }
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) != names.end();
}

std::string FleetText(
    const std::vector<proto::PlanWorkers>& workers,
    bool names_minibatches,
    const std::vector<std::string>& zoned) {
  const auto is_on_demand = [](const proto::PlanWorkers& some) {
    return some.market == proto::Market::kOnDemand;
  };
  const bool is_all_on_demand = std::ranges::all_of(workers, is_on_demand);
  const auto is_alike = [](const proto::PlanWorkers& a, const proto::PlanWorkers& b) {
    return a.instance_type == b.instance_type && a.market == b.market && a.minibatch == b.minibatch;
  };
  std::string text;
  for (const proto::PlanWorkers& some : workers) {
    const auto alike = std::ranges::count_if(
        workers, [&](const proto::PlanWorkers& other) { return is_alike(some, other); });
    const bool is_zoned = alike > 1 || std::ranges::count(zoned, some.instance_type) > 0;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", some.count, some.instance_type);
    text += names_minibatches ? fmt::format(":{}", some.minibatch) : "";
    text += is_zoned && !some.zone.empty() ? " in " + some.zone : "";
    text += is_on_demand(some) && !is_all_on_demand ? " (on demand)" : "";
  }
  return text + (is_all_on_demand ? ", on demand" : "");
}

std::string ZonesText(const std::vector<proto::PlanWorkers>& workers) {
  std::map<std::string, std::set<std::string>> zones;
  for (const proto::PlanWorkers& some : workers) {
    if (!some.zone.empty()) {
      zones[some.zone].insert(some.instance_type);
    }
  }
  if (zones.size() == 1) {
    return zones.begin()->first;
  }
  std::string text;
  for (const auto& [zone, types] : zones) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", zone, Join(types));
  }
  return text;
}

std::string ServersText(const proto::PlanServers& servers) {
  return fmt::format(
      "{} {}{}",
      servers.count,
      servers.instance_type,
      servers.zone.empty() ? "" : " in " + servers.zone);
}

proto::Plan PlanOf(
    const PlanProblem& problem,
    const proto::JobProfile& profile,
    const FleetChoice& choice,
    const std::string& strategy) {
  const Goal& goal = problem.goal;
  proto::Plan plan;
  plan.job = profile.job;
  plan.model_fingerprint = profile.model_fingerprint;
  plan.training_fingerprint = profile.training_fingerprint;
  plan.strategy = strategy;
  plan.speed_model = std::string(problem.speed->name());
  plan.loss_target = goal.loss;
  plan.seconds_max = LimitOrZero(goal.seconds_max);
  plan.usd_max = LimitOrZero(goal.usd_max);
  plan.usd_per_hour_max = LimitOrZero(goal.usd_per_hour_max);
  plan.confidence = goal.confidence;
  plan.takeover_s = choice.start_s > 0 ? choice.start_s : goal.takeover_s;
  plan.loss_now = goal.loss_now;
  plan.steps_done = goal.steps_done;
  plan.pace = goal.pace;
  plan.local_steps = problem.local_steps;
  plan.workers = WorkersOf(problem, choice);
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  plan.servers = {
      server.instance_type,
      choice.server_hosts,
      server.link_bytes_per_s,
      server.usd_per_hour,
      server.zone < 0 ? "" : problem.zones[static_cast<size_t>(server.zone)]};
  // Both ends hold at the goal's confidence: of a goal that is met, the upper end is in time.
  const double inside = std::max(2 * goal.confidence - 1, 0.0);
  plan.samples_per_s = Interval(
      choice.speed.samples_per_s,
      CombinedResidual(
          SpeedDeviation(problem, {WorkersOf(choice.counts), choice.server_hosts}),
          choice.speed.deviation),
      inside);
  if (problem.loss != nullptr && choice.steps > 0) {
    const FleetTraits fleet = TraitsOf(choice.speed, WorkersOf(choice.counts));
    const double residual = TimeDeviation(problem, fleet, choice.server_hosts);
    plan.steps = Interval(choice.steps, problem.loss->ResidualAt(goal.loss, fleet), inside);
    // Nothing is in doubt of the start, so that of a goal that is met the upper end is in time.
    const double start_s = choice.start_s;
    const FleetTraffic traffic = TrafficOf(problem, choice);
    plan.traffic = {traffic.bytes, traffic.bytes_across, choice.traffic_usd};
    const proto::Estimate trained = Interval(choice.seconds - start_s, residual, inside);
    // Rounded, they still hold what they are of, where both ends are it.
    plan.seconds = {
        choice.seconds,
        std::min(trained.low + start_s, choice.seconds),
        std::max(trained.high + start_s, choice.seconds)};
    plan.usd = {
        choice.usd,
        std::min(choice.usd * plan.seconds.low / choice.seconds, choice.usd),
        std::max(choice.usd * plan.seconds.high / choice.seconds, choice.usd)};
  }
  plan.bottleneck = std::string(BottleneckName(choice.speed.bottleneck));
  plan.server_busy = choice.speed.server_busy;
  return plan;
}

std::vector<PlotPoint> PlotPoints(
    const PlanProblem& problem, const FleetChoice& choice, int workers_max) {
  std::vector<PlotPoint> points;
  PlanProblem sized = problem;
  sized.answers_max = 1;
  sized.effort_max = std::min(sized.effort_max, kPointEffort);
  sized.watch = nullptr;  // a plot of a search that was ended is a plot all the same
  sized.servers = {problem.servers[static_cast<size_t>(choice.server_offer)]};
  sized.servers.front().hosts_min = choice.server_hosts;
  sized.servers.front().hosts_max = choice.server_hosts;
  for (int workers = 1; workers <= workers_max; ++workers) {
    sized.workers_min = workers;
    sized.workers_max = workers;
    PlanAnswer answer = SolveExactly(sized, {});
    const bool is_in_time = !answer.best.empty();
    if (!is_in_time) {
      PlanProblem endless = sized;
      endless.goal.seconds_max = INFINITY;
      endless.goal.usd_max = INFINITY;
      answer = SolveForTime(endless);
    }
    if (answer.best.empty()) {
      continue;
    }
    FleetJudge judge(sized);
    PlotPoint point;
    point.workers = workers;
    point.choice = judge.Choose(answer.best.front().counts, 0, choice.server_hosts);
    point.fleet = FleetText(WorkersOf(sized, point.choice), HasSeveralMinibatches(*problem.speed));
    point.is_in_time = is_in_time;
    points.push_back(std::move(point));
  }
  return points;
}

std::vector<std::string> BeyondProfile(const proto::JobProfile& profile, double loss, int workers) {
  std::vector<std::string> notes;
  if (profile.losses.empty() || loss <= 0) {
    return notes;  // what the curves saw is not known
  }
  const auto [lowest, highest] = std::ranges::minmax(profile.losses, {}, &proto::LossSample::loss);
  if (loss < lowest.loss || loss > highest.loss) {
    notes.push_back(fmt::format(
        "loss {:.4g} is {} all that the profile saw, {:.4g} to {:.4g}: its steps are extrapolated",
        loss,
        loss < lowest.loss ? "below" : "above",
        lowest.loss,
        highest.loss));
  }
  const int most = std::ranges::max(profile.losses, {}, &proto::LossSample::workers).workers;
  if (workers > most) {
    notes.push_back(fmt::format(
        "the profile saw the losses of fleets of up to {} {}: the steps of {} are extrapolated",
        most,
        most == 1 ? "worker" : "workers",
        workers));
  }
  return notes;
}

}  // namespace ps::provisioner
