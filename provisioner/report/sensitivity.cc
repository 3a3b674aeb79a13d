#include "provisioner/report/sensitivity.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/report/plan_report.h"

namespace ps::provisioner {
namespace {

// Plans that save less than this share are not reported.
constexpr double kWorthMentioning = 0.001;

/// A change after which the loss is out of reach, or there already, is no gain.
void AddGain(std::string change, const Verdict& after, std::vector<proto::PlanGain>* gains) {
  if (std::isfinite(after.seconds) && std::isfinite(after.usd) && after.steps >= 1) {
    gains->push_back({std::move(change), after.speed.samples_per_s, after.seconds, after.usd});
  }
}

/// The choice under models made of a changed catalog and profile.
void AddChanged(
    const PlanInput& input,
    const FleetChoice& choice,
    const char* change,
    const std::function<void(proto::Catalog*, proto::JobProfile*)>& edit,
    std::vector<proto::PlanGain>* gains) {
  proto::Catalog catalog = *input.catalog;
  proto::JobProfile profile = *input.profile;
  edit(&catalog, &profile);
  Result<JobModels> models = BuildJobModels(catalog, profile, input.models);
  if (!models.ok()) {
    return;  // a figure that is beyond what a model takes is no answer
  }
  JobModels changed = std::move(models).value();
  const Result<PlanProblem> problem = MakePlanProblem(catalog, changed, input.setup);
  // Where the zones of a type are offers of their own, as in no other problem, nothing is said.
  if (problem.ok() && problem->offers.size() == choice.counts.size()) {
    FleetJudge judge(*problem);
    AddGain(change, judge.Judge(choice.counts, choice.server_offer, choice.server_hosts), gains);
  }
}

}  // namespace

std::vector<proto::PlanGain> WhatMoreBuys(
    const PlanInput& input, const PlanProblem& problem, const FleetChoice& choice) {
  FleetJudge judge(problem);
  const bool names_minibatches = HasSeveralMinibatches(*problem.speed);
  std::vector<proto::PlanGain> gains;
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    std::vector<int> counts = choice.counts;
    ++counts[i];
    if (!judge.HasMemory(WorkersOf(counts), choice.server_offer, choice.server_hosts)) {
      continue;
    }
    const Offer& offer = problem.offers[i];
    const bool is_second = i > 0 && offer.market == proto::Market::kOnDemand &&
                           problem.offers[i - 1].worker_class == offer.worker_class;
    const bool is_zoned =
        std::ranges::count_if(problem.offers, [&](const Offer& other) {
          return other.worker_class == offer.worker_class && other.market == offer.market;
        }) > 1;
    const auto k = static_cast<size_t>(offer.worker_class);
    const auto samples = static_cast<int>(problem.speed->classes()[k].samples);
    AddGain(
        "one more " + problem.speed->classes()[k].name +
            (names_minibatches ? fmt::format(":{}", samples) : "") +
            (is_zoned ? " in " + offer.zone : "") + (is_second ? ", on demand" : ""),
        judge.Judge(counts, choice.server_offer, choice.server_hosts),
        &gains);
  }
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  AddGain(
      "one more server " + server.instance_type,
      judge.Judge(choice.counts, choice.server_offer, choice.server_hosts + 1),
      &gains);
  PlanProblem faster = problem;
  faster.servers[static_cast<size_t>(choice.server_offer)].link_bytes_per_s *= 2;
  FleetJudge faster_judge(faster);
  AddGain(
      "twice the servers' network",
      faster_judge.Judge(choice.counts, choice.server_offer, choice.server_hosts),
      &gains);
  AddChanged(
      input,
      choice,
      "twice the workers' network",
      [&](proto::Catalog* catalog, proto::JobProfile* profile) {
        profile->request_bytes_per_s *= 2;
        for (proto::InstanceType& type : catalog->types) {
          if (!type.is_server_host) {
            type.network_gbit_per_s *= 2;
          }
        }
      },
      &gains);
  AddChanged(
      input,
      choice,
      "twice the PCIe",
      [](proto::Catalog* catalog, proto::JobProfile* /*profile*/) {
        for (proto::InstanceType& type : catalog->types) {
          type.pcie_gbyte_per_s *= 2;
        }
      },
      &gains);
  return gains;
}

std::vector<proto::PlanQuota> WhatQuotaBuys(const PlanProblem& problem, const FleetChoice& choice) {
  std::vector<proto::PlanQuota> gains;
  const std::vector<int> room = RoomBeside(problem, choice.server_offer, choice.server_hosts);
  std::vector<int> pooled(room.size(), 0);  // chosen beyond what is held
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    if (const int pool = problem.offers[i].pool; pool >= 0) {
      pooled[static_cast<size_t>(pool)] += choice.counts[i] - problem.offers[i].held;
    }
  }
  std::vector<bool> is_asked(room.size(), false);
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    const int pool = problem.offers[i].pool;
    const auto p = static_cast<size_t>(pool);
    const bool is_used_up = pool >= 0 ? pooled[p] >= room[p] && !is_asked[p]
                                      : choice.counts[i] >= problem.offers[i].quota;
    if (choice.counts[i] == 0 || !is_used_up) {
      continue;
    }
    PlanProblem raised = problem;
    raised.answers_max = 1;
    if (pool >= 0) {
      is_asked[p] = true;
      ++raised.pools[p].quota;
    }
    for (size_t k = 0; k < raised.offers.size(); ++k) {
      raised.offers[k].quota += k == i || (pool >= 0 && raised.offers[k].pool == pool) ? 1 : 0;
    }
    const PlanAnswer answer = SolveExactly(raised, {kWorthMentioning / 10});
    if (!answer.best.empty() && answer.best.front().usd < choice.usd * (1 - kWorthMentioning)) {
      const auto k = static_cast<size_t>(problem.offers[i].worker_class);
      gains.push_back({problem.speed->classes()[k].name, answer.best.front().usd});
    }
  }
  return gains;
}

std::string BindingBottleneck(
    const FleetChoice& choice, const std::vector<proto::PlanQuota>& quotas) {
  if (choice.speed.bottleneck == Bottleneck::kCompute && !quotas.empty()) {
    return "quota";
  }
  return std::string(BottleneckName(choice.speed.bottleneck));
}

}  // namespace ps::provisioner
