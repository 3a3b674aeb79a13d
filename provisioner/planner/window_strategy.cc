// spotDNN's Algorithm 1: every instance that may be rented is an entry of one list, sorted by the
// time of a step when alone; the candidates are the windows of that list.
//
// The released prototype differs from the paper: its windows go around the end of the list, it
// tries sizes from 1 to one less than the list, it sorts by the iteration time that was measured
// (its own predictions have the copies over PCIe in them once more), and it rounds the batch to a
// tenth, the steps to whole ones, the time to 0.01 s and the cost to 1e-6 USD before it compares.

#include <algorithm>
#include <cmath>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/strategies.h"

namespace ps::provisioner {
namespace {

double RoundedTo(double value, double unit) {
  return std::nearbyint(value / unit) * unit;
}

class WindowStrategy final : public Strategy {
 public:
  explicit WindowStrategy(WindowRules rules) : rules_(rules) {}

  std::string_view name() const override {
    return is_prototype() ? "spotdnn-prototype" : "spotdnn";
  }

  Result<PlanAnswer> Solve(const PlanProblem& problem) const override {
    return SolveByTrial(
        problem, name(), [&](int server, int hosts, FleetJudge* judge, BestFleets* best) {
          TryWindows(problem, server, hosts, judge, best);
        });
  }

 private:
  bool is_prototype() const { return rules_ == WindowRules::kPrototype; }

  /// The algorithm knows one minibatch per type: the largest.
  static bool IsLargestOfPool(const PlanProblem& problem, size_t index) {
    const auto samples = [&](size_t i) {
      return problem.speed->classes()[static_cast<size_t>(problem.offers[i].worker_class)].samples;
    };
    for (size_t i = 0; i < problem.offers.size(); ++i) {
      if (problem.offers[i].pool == problem.offers[index].pool && samples(i) > samples(index)) {
        return false;
      }
    }
    return true;
  }

  /// The offer of every instance that is not held yet, by step time, ties in the problem's order.
  std::vector<size_t> SortedInstances(
      const PlanProblem& problem, int server, int hosts, const FleetJudge& judge) const {
    const size_t class_count = problem.speed->classes().size();
    std::vector<double> step_s;
    for (size_t k = 0; k < class_count; ++k) {
      std::vector<int> alone(class_count, 0);
      alone[k] = 1;
      const double measured_s = problem.speed->classes()[k].iteration_s;
      step_s.push_back(
          is_prototype() && measured_s > 0
              ? measured_s
              : 1 / problem.speed->Predict(alone, judge.Side(server, hosts)).steps_per_s);
    }
    std::vector<size_t> offers(problem.offers.size());
    for (size_t i = 0; i < offers.size(); ++i) {
      offers[i] = i;
    }
    std::sort(offers.begin(), offers.end(), [&](size_t a, size_t b) {
      const Offer& offer_a = problem.offers[a];
      const Offer& offer_b = problem.offers[b];
      const double step_a = step_s[static_cast<size_t>(offer_a.worker_class)];
      const double step_b = step_s[static_cast<size_t>(offer_b.worker_class)];
      if (step_a != step_b) {
        return step_a < step_b;
      }
      return offer_a.usd_per_hour != offer_b.usd_per_hour
                 ? offer_a.usd_per_hour < offer_b.usd_per_hour
                 : a < b;
    });
    const std::vector<int> room = RoomBeside(problem, server, hosts);
    std::vector<size_t> instances;
    for (const size_t i : offers) {
      const Offer& offer = problem.offers[i];
      int spare = offer.quota - offer.held;
      if (offer.pool >= 0) {
        spare = IsLargestOfPool(problem, i)
                    ? std::clamp(room[static_cast<size_t>(offer.pool)], 0, spare)
                    : 0;
      }
      instances.insert(instances.end(), static_cast<size_t>(spare), i);
    }
    return instances;
  }

  void TryWindows(
      const PlanProblem& problem,
      int server,
      int hosts,
      FleetJudge* judge,
      BestFleets* best) const {
    const std::vector<size_t> list = SortedInstances(problem, server, hosts, *judge);
    std::vector<int> held;
    for (const Offer& offer : problem.offers) {
      held.push_back(offer.held);
    }
    const int held_count = WorkersOf(held);
    const int list_size = static_cast<int>(list.size());
    const int size_max =
        is_prototype() ? list_size - 1 : std::min(list_size, problem.workers_max - held_count);
    const int size_min = is_prototype() ? 1 : std::max(0, problem.workers_min - held_count);
    std::vector<int> counts;
    for (int size = held_count > 0 ? 0 : std::max(1, size_min); size <= size_max; ++size) {
      if (size < size_min && size > 0) {
        continue;  // 0, when there are held ones: no need for more
      }
      const int starts = size == 0 ? 1 : is_prototype() ? list_size : list_size - size + 1;
      for (int start = 0; start < starts; ++start) {
        counts = held;
        for (int i = start; i < start + size; ++i) {
          ++counts[list[static_cast<size_t>(i % list_size)]];
        }
        Consider(problem, counts, server, hosts, judge, best);
      }
    }
  }

  void Consider(
      const PlanProblem& problem,
      const std::vector<int>& counts,
      int server,
      int hosts,
      FleetJudge* judge,
      BestFleets* best) const {
    if (!judge->Fits(counts, server, hosts)) {
      return;
    }
    Verdict verdict = judge->Judge(counts, server, hosts);
    if (is_prototype()) {
      RoundAsPrototype(problem, counts, server, judge, &verdict);
      if (!(verdict.seconds > 0)) {
        return;
      }
    }
    if (!judge->MeetsGoal(verdict)) {
      return;
    }
    FleetChoice choice = judge->Choose(counts, server, hosts);
    choice.speed = verdict.speed;
    choice.steps = verdict.steps;
    choice.seconds = verdict.seconds;
    choice.usd = verdict.usd;
    choice.traffic_usd = verdict.traffic_usd;
    best->Add(std::move(choice));
  }

  static void RoundAsPrototype(
      const PlanProblem& problem,
      const std::vector<int>& counts,
      int server,
      FleetJudge* judge,
      Verdict* verdict) {
    SpeedPrediction& speed = verdict->speed;
    speed.batch_mean = RoundedTo(speed.batch_mean, 0.1);
    verdict->steps =
        RoundedTo(problem.loss->StepsTo(problem.goal.loss, TraitsOf(speed, WorkersOf(counts))), 1);
    verdict->seconds = RoundedTo(speed.batch_mean * verdict->steps / speed.samples_per_s, 0.01);
    verdict->seconds += verdict->start_s;
    verdict->usd = RoundedTo(judge->Usd(counts, server, verdict->seconds, verdict), 1e-6);
  }

  WindowRules rules_;
};

}  // namespace

std::unique_ptr<Strategy> MakeWindowStrategy(WindowRules rules) {
  return std::make_unique<WindowStrategy>(rules);
}

}  // namespace ps::provisioner
