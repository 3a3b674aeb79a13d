#include "run/planning/unseen_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "ps/base/text.h"
#include "run/planning/planning_files.h"

namespace ps::run {
namespace {

constexpr uint64_t kEffort = 2'000'000;  // of a search, in nodes
constexpr double kWorthwhile = 0.01;     // of the plan's price

Result<std::pair<std::string, provisioner::MachineFigures>> ParseMeasuredOn(
    const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    return Status::InvalidArgument(fmt::format(
        "--measured-on wants a type of the profile and its device, as in local=V100; got '{}'",
        Printable(text)));
  }
  Result<provisioner::MachineFigures> machine = provisioner::ParseMachine(text.substr(equals + 1));
  if (!machine.ok()) {
    return Status::InvalidArgument(fmt::format("--measured-on: {}", machine.status().message()));
  }
  return std::pair(text.substr(0, equals), std::move(machine).value());
}

/// Samples for a dollar on the cheapest offer of the type, were it as fast as it may be.
double BestWorth(const Planning& planning, const provisioner::UnseenType& type) {
  double best = 0;
  for (const provisioner::Offer& offer : planning.problem.offers) {
    const provisioner::WorkerClass& worker =
        planning.problem.speed->classes()[static_cast<size_t>(offer.worker_class)];
    if (worker.name == type.instance_type && offer.quota > 0 && offer.usd_per_hour > 0) {
      best = std::max(best, worker.samples / type.low_s / offer.usd_per_hour);
    }
  }
  return best;
}

/// What knowing that the type takes `compute_s` would save, of the price of the choice then.
double Regret(
    const PlanCommand& command,
    const Planning& planning,
    const provisioner::FleetChoice& choice,
    const provisioner::UnseenType& type,
    double compute_s) {
  proto::JobProfile profile = planning.profile;
  for (proto::WorkerProfile& worker : profile.workers) {
    if (worker.instance_type == type.instance_type) {
      worker.compute_s = compute_s;
    }
  }
  provisioner::JobModelOptions options = planning.input.models;
  options.deviations.erase(type.instance_type);
  const auto models = provisioner::BuildJobModels(planning.catalog, profile, options);
  if (!models.ok()) {
    return 0;
  }
  provisioner::PlanProblem problem = planning.problem;
  problem.speed = models->speed.get();
  problem.loss = models->loss.get();
  problem.effort_max = kEffort;
  problem.answers_max = 1;
  const auto answer = SolveProblem(command, planning, problem);
  if (!answer.ok() || answer->best.empty() || answer->is_stopped) {
    return 0;
  }
  const double best_usd = answer->best.front().usd;
  provisioner::FleetJudge judge(problem);
  const provisioner::Verdict kept =
      judge.Judge(choice.counts, choice.server_offer, choice.server_hosts);
  return judge.MeetsGoal(kept) ? std::max(0.0, kept.usd - best_usd) : best_usd;
}

}  // namespace

Status UseUnseen(const PlanningCommand& command, Planning* planning) {
  if (!command.has_unseen) {
    return Status::Ok();
  }
  provisioner::JobModelOptions& models = planning->input.models;
  provisioner::UnseenRequest request;
  request.types = models.instance_types;
  request.left_out = models.left_out;
  // Limits hold at the confidence with as much outside on either side.
  request.inside = std::clamp(2 * command.confidence - 1, 0.5, 0.98);
  for (const std::string& text : command.measured_on) {
    PS_ASSIGN(auto said, ParseMeasuredOn(text));
    if (planning->profile.Find(said.first) == nullptr) {
      return Status::InvalidArgument(
          fmt::format("--measured-on: the profile has no figures of {}", Printable(said.first)));
    }
    if (!request.measured_on.insert(std::move(said)).second) {
      return Status::InvalidArgument(
          fmt::format("--measured-on names a type twice: {}", Printable(text)));
    }
  }
  for (const std::string& path : command.learn_from) {
    PS_ASSIGN(proto::JobProfile other, LoadProfile(path));
    request.others.push_back(std::move(other));
  }
  PS_ASSIGN(
      planning->unseen,
      provisioner::AddUnseenTypes(planning->catalog, request, &planning->profile));
  for (const provisioner::UnseenType& type : planning->unseen) {
    models.deviations[type.instance_type] = type.deviation;
  }
  return Status::Ok();
}

void AddUnseenNotes(const Planning& planning, proto::Plan* plan) {
  for (const provisioner::UnseenType& type : planning.unseen) {
    const auto is_it = [&](const proto::PlanWorkers& workers) {
      return workers.instance_type == type.instance_type;
    };
    if (std::ranges::any_of(plan->workers, is_it)) {
      plan->notes.push_back(fmt::format(
          "{} was not measured: a minibatch of {} is reckoned to take {:.3g} s there ({:.3g} to "
          "{:.3g}), from {} "
          "({}); measure it there before you rent a fleet: psctl profile --type {}",
          type.instance_type,
          type.minibatch,
          type.compute_s,
          type.low_s,
          type.high_s,
          type.from,
          type.from_device,
          type.instance_type));
    }
  }
}

NextProfile NextToProfile(
    const PlanCommand& command, const Planning& planning, const provisioner::FleetChoice& choice) {
  if (planning.objective != proto::Objective::kCost || !(choice.usd > 0)) {
    return {};
  }
  std::vector<std::pair<double, const provisioner::UnseenType*>> tried;
  for (const provisioner::UnseenType& type : planning.unseen) {
    if (const double worth = BestWorth(planning, type); worth > 0) {
      tried.emplace_back(worth, &type);
    }
  }
  std::ranges::sort(tried, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  tried.resize(std::min(tried.size(), kTypesTried));
  NextProfile next;
  for (const auto& [worth, type] : tried) {
    const double usd = (Regret(command, planning, choice, *type, type->low_s) +
                        Regret(command, planning, choice, *type, type->high_s)) /
                       2;
    if (usd > next.usd) {
      next = {type->instance_type, usd, usd / choice.usd};
    }
  }
  return next.share >= kWorthwhile ? next : NextProfile();
}

}  // namespace ps::run
