#include "provisioner/sensitivity.h"

#include <functional>
#include <memory>
#include <utility>

#include "provisioner/fleet_judge.h"
#include "provisioner/infeasible.h"

namespace ps::provisioner {
namespace {

// Plans that save less than this are the same plan for people.
constexpr double kWorthMentioning = 0.001;

Gain GainOf(std::string change, const FleetChoice& before, const Verdict& after) {
  return {
      std::move(change),
      after.speed.samples_per_s / before.speed.samples_per_s - 1,
      after.seconds,
      after.usd};
}

/// The choice under models made of a changed catalog and profile.
void AddChanged(
    const PlanInput& input,
    const FleetChoice& choice,
    const char* change,
    const std::function<void(proto::Catalog*, proto::JobProfile*)>& edit,
    std::vector<Gain>* gains) {
  proto::Catalog catalog = *input.catalog;
  proto::JobProfile profile = *input.profile;
  edit(&catalog, &profile);
  Result<JobModels> models = BuildJobModels(catalog, profile, input.models);
  if (!models.ok()) {
    return;  // a figure that is beyond what a model takes is no answer
  }
  JobModels changed = std::move(models).value();
  const Result<PlanProblem> problem = MakePlanProblem(catalog, changed, input.setup);
  if (problem.ok()) {
    FleetJudge judge(*problem);
    gains->push_back(GainOf(
        change, choice, judge.Judge(choice.counts, choice.server_offer, choice.server_hosts)));
  }
}

}  // namespace

std::vector<Gain> WhatMoreBuys(
    const PlanInput& input, const PlanProblem& problem, const FleetChoice& choice) {
  FleetJudge judge(problem);
  std::vector<Gain> gains;
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    std::vector<int> counts = choice.counts;
    ++counts[i];
    const auto k = static_cast<size_t>(problem.offers[i].worker_class);
    gains.push_back(GainOf(
        "one more " + problem.speed->classes()[k].name,
        choice,
        judge.Judge(counts, choice.server_offer, choice.server_hosts)));
  }
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  gains.push_back(GainOf(
      "one more server " + server.instance_type,
      choice,
      judge.Judge(choice.counts, choice.server_offer, choice.server_hosts + 1)));
  PlanProblem faster = problem;
  faster.servers[static_cast<size_t>(choice.server_offer)].link_bytes_per_s *= 2;
  FleetJudge faster_judge(faster);
  gains.push_back(GainOf(
      "twice the servers' network",
      choice,
      faster_judge.Judge(choice.counts, choice.server_offer, choice.server_hosts)));
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

std::vector<QuotaGain> WhatQuotaBuys(const PlanProblem& problem, const FleetChoice& choice) {
  std::vector<QuotaGain> gains;
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    if (choice.counts[i] == 0 || choice.counts[i] < problem.offers[i].quota) {
      continue;
    }
    PlanProblem raised = problem;
    raised.answers_max = 1;
    ++raised.offers[i].quota;
    const PlanAnswer answer = SolveExactly(raised, {kWorthMentioning / 10});
    if (!answer.best.empty() && answer.best.front().usd < choice.usd * (1 - kWorthMentioning)) {
      const auto k = static_cast<size_t>(problem.offers[i].worker_class);
      gains.push_back({problem.speed->classes()[k].name, answer.best.front().usd});
    }
  }
  return gains;
}

std::string BindingBottleneck(
    const FleetChoice& choice, const std::vector<QuotaGain>& quota_gains) {
  if (choice.speed.bottleneck == Bottleneck::kCompute && !quota_gains.empty()) {
    return "quota";
  }
  return std::string(BottleneckName(choice.speed.bottleneck));
}

}  // namespace ps::provisioner
