// Strategies that let "exact" solve another problem than the one they are given.

#include <cmath>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/problem_check.h"
#include "provisioner/planner/strategies.h"
#include "provisioner/profile/statistics.h"

namespace ps::provisioner {
namespace {

/// A model's workers as if each were alone: speeds add up, as CM-DARE assumes.
class AloneModel final : public SpeedModel {
 public:
  explicit AloneModel(const SpeedModel& real) : real_(real) {}

  std::string_view name() const override { return "ideal"; }

  const std::vector<WorkerClass>& classes() const override { return real_.classes(); }

  SpeedPrediction Predict(std::span<const int> counts, const ServerSide& servers) const override {
    const std::vector<double> rates = Rates(servers);
    std::vector<double> samples_per_s(rates.size());
    SpeedPrediction prediction;
    for (size_t k = 0; k < rates.size(); ++k) {
      samples_per_s[k] = rates[k] * classes()[k].samples;
      prediction.steps_per_s += counts[k] * rates[k];
      prediction.samples_per_s += counts[k] * samples_per_s[k];
    }
    prediction.batch_mean = prediction.samples_per_s / prediction.steps_per_s;
    prediction.heterogeneity = Heterogeneity(counts, samples_per_s);
    return prediction;
  }

  std::vector<double> StepSeconds(
      std::span<const int> /*counts*/, const ServerSide& servers) const override {
    std::vector<double> seconds = Rates(servers);
    for (double& value : seconds) {
      value = 1 / value;
    }
    return seconds;
  }

  SpeedBounds Bound(int /*workers*/, const ServerSide& servers) const override {
    SpeedBounds bounds;
    bounds.steps_per_s = Rates(servers);
    bounds.fleet_steps_per_s = INFINITY;
    bounds.is_exact = true;
    return bounds;
  }

  bool has_proven_bounds() const override { return true; }

  double residual() const override { return real_.residual(); }

 private:
  /// Kept for the last server side: planners ask for one after the other.
  const std::vector<double>& Rates(const ServerSide& servers) const {
    if (rates_.empty() || rates_of_.hosts != servers.hosts ||
        rates_of_.link_bytes_per_s != servers.link_bytes_per_s) {
      rates_.clear();
      std::vector<int> alone(classes().size(), 0);
      for (int& count : alone) {
        count = 1;
        rates_.push_back(real_.Predict(alone, servers).steps_per_s);
        count = 0;
      }
      rates_of_ = servers;
    }
    return rates_;
  }

  const SpeedModel& real_;
  mutable ServerSide rates_of_;
  mutable std::vector<double> rates_;
};

class IdealStrategy final : public Strategy {
 public:
  std::string_view name() const override { return "ideal"; }

  Result<PlanAnswer> Solve(const PlanProblem& problem) const override {
    PS_TRY(CheckProblem(problem));
    const AloneModel alone(*problem.speed);
    PlanProblem hopeful = problem;
    hopeful.speed = &alone;
    PS_ASSIGN(PlanAnswer answer, MakeExactStrategy()->Solve(hopeful));
    FleetJudge judge(problem);
    for (FleetChoice& choice : answer.best) {
      choice = judge.Choose(choice.counts, choice.server_offer, choice.server_hosts);
    }
    answer.certainty = proto::Certainty::kBestFound;
    return answer;
  }
};

class OnDemandStrategy final : public Strategy {
 public:
  std::string_view name() const override { return "on-demand"; }

  Result<PlanAnswer> Solve(const PlanProblem& problem) const override {
    PS_TRY(CheckProblem(problem));
    PlanProblem narrowed = problem;
    narrowed.offers.clear();
    narrowed.runs.clear();
    std::vector<size_t> original;
    for (size_t i = 0; i < problem.offers.size(); ++i) {
      if (problem.offers[i].market == proto::Market::kOnDemand) {
        narrowed.offers.push_back(problem.offers[i]);
        if (!problem.runs.empty()) {
          narrowed.runs.push_back(problem.runs[i]);
        }
        original.push_back(i);
      } else if (problem.offers[i].held > 0) {
        return Status::InvalidArgument(
            "spot instances are held, which a plan on demand can't keep: release them first");
      }
    }
    const bool runs_on_spot = WorkersOf(problem.runs) > WorkersOf(narrowed.runs);
    if (runs_on_spot) {  // every fleet on demand is another one
      narrowed.runs.assign(narrowed.offers.size(), 0);
    }
    if (narrowed.offers.empty()) {
      return Status::InvalidArgument("nothing is on offer on demand");
    }
    PS_ASSIGN(PlanAnswer answer, MakeExactStrategy()->Solve(narrowed));
    for (FleetChoice& choice : answer.best) {
      std::vector<int> counts(problem.offers.size(), 0);
      for (size_t i = 0; i < original.size(); ++i) {
        counts[original[i]] = choice.counts[i];
      }
      choice.counts = std::move(counts);
      choice.places.clear();  // what is sold on demand is in each zone
    }
    return answer;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeIdealStrategy() {
  return std::make_unique<IdealStrategy>();
}

std::unique_ptr<Strategy> MakeOnDemandStrategy() {
  return std::make_unique<OnDemandStrategy>();
}

}  // namespace ps::provisioner
