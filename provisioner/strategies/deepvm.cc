#include "provisioner/strategies/deepvm.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <tuple>

#include "provisioner/planner/numbers.h"

namespace ps::provisioner {
namespace {

struct SaturationStep {
  double gbit_per_s;
  int nodes;
};

constexpr SaturationStep kSaturation[] = {
    {0.3, 2}, {1.7, 12}, {5, 16}, {10, 20}, {12.5, 24}, {15, 24}, {25, 28}, {30, 32}};

/// Products in another order are the same then.
double RoundTo40Bits(double score) {
  int exponent = 0;
  const double mantissa = std::frexp(score, &exponent);
  return std::ldexp(std::round(std::ldexp(mantissa, 40)), exponent - 40);
}

double ScoreOf(const DeepVmTrainer& trainer, int nodes, bool scales) {
  return FlopPerDollar(trainer) * nodes * (scales ? ScalingFactor(trainer.curve, nodes) : 1);
}

void AddTiering(const DeepVmProblem& problem, bool scales, std::vector<DeepVmChoice>* choices) {
  for (size_t v = 0; v < problem.trainers.size(); ++v) {
    const DeepVmTrainer& trainer = problem.trainers[v];
    for (size_t w = 0; w < problem.remotes.size(); ++w) {
      const DeepVmRemote& remote = problem.remotes[w];
      const int saturation = SaturationOf(std::min(trainer.gbit_per_s, remote.gbit_per_s));
      if (remote.memory_gib < problem.memory_gib_min) {
        continue;
      }
      for (int nodes = 1; nodes <= trainer.count_max; ++nodes) {
        for (int remotes = 1; remotes <= remote.count_max; ++remotes) {
          const double usd =
              trainer.spot_usd_per_hour * nodes + remote.on_demand_usd_per_hour * remotes;
          if (usd > problem.usd_per_hour_max) {
            break;
          }
          if (nodes < saturation * remotes) {
            choices->push_back(
                {DeepVmArchitecture::kTiering,
                 v,
                 nodes,
                 w,
                 remotes,
                 ScoreOf(trainer, nodes, scales),
                 usd});
          }
        }
      }
    }
  }
}

DeepVmChoice Anchored(const DeepVmProblem& problem, size_t index, int nodes, bool scales) {
  const DeepVmTrainer& trainer = problem.trainers[index];
  DeepVmChoice choice;
  choice.architecture = DeepVmArchitecture::kSingleAnchor;
  choice.trainer = index;
  choice.nodes = nodes;
  choice.score = ScoreOf(trainer, nodes, scales);
  choice.usd_per_hour = trainer.on_demand_usd_per_hour + trainer.spot_usd_per_hour * (nodes - 1);
  return choice;
}

void AddSingleAnchor(
    const DeepVmProblem& problem, bool scales, std::vector<DeepVmChoice>* choices) {
  for (size_t v = 0; v < problem.trainers.size(); ++v) {
    for (int nodes = 2; nodes <= problem.trainers[v].count_max; ++nodes) {
      const DeepVmChoice choice = Anchored(problem, v, nodes, scales);
      if (choice.usd_per_hour > problem.usd_per_hour_max) {
        break;
      }
      choices->push_back(choice);
    }
  }
}

/// Spot nodes beside an anchor, as the baselines count them; 0 where none fits.
int SpotNodesWithin(const DeepVmTrainer& trainer, double usd_per_hour_max) {
  const double left = usd_per_hour_max - trainer.on_demand_usd_per_hour;
  if (usd_per_hour_max < trainer.on_demand_usd_per_hour + trainer.spot_usd_per_hour) {
    return 0;
  }
  const double whole =
      (left - std::fmod(left, trainer.spot_usd_per_hour)) / trainer.spot_usd_per_hour;
  return std::min(static_cast<int>(std::lround(whole)), trainer.count_max);
}

}  // namespace

double ScalingFactor(const ScalingCurve& curve, double nodes) {
  if (nodes <= curve.middle) {
    return 1;
  }
  const double x = curve.slope * (nodes - curve.middle);
  return 4 / ((1 + std::exp(-x)) * (2 + x));
}

double PlannedSpeedUp(const ScalingCurve& curve, double nodes) {
  const double x = curve.slope * (nodes - curve.middle);
  return nodes <= curve.middle ? curve.ceiling * (x + 2) / 4 : curve.ceiling / (1 + std::exp(-x));
}

int SaturationOf(double gbit_per_s) {
  int nodes = 0;
  for (const SaturationStep& step : kSaturation) {
    if (gbit_per_s >= step.gbit_per_s) {
      nodes = step.nodes;
    }
  }
  return nodes;
}

double FlopPerDollar(const DeepVmTrainer& trainer) {
  return trainer.flops / trainer.spot_usd_per_hour * kSecondsPerHour;
}

std::vector<DeepVmChoice> SolveDeepVm(
    const DeepVmProblem& problem, DeepVmTies ties, size_t answers_max) {
  std::vector<DeepVmChoice> choices;
  AddTiering(problem, true, &choices);
  AddSingleAnchor(problem, true, &choices);
  std::vector<size_t> order(choices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t left, size_t right) {
    const DeepVmChoice& a = choices[left];
    const DeepVmChoice& b = choices[right];
    const double score_a = RoundTo40Bits(a.score);
    const double score_b = RoundTo40Bits(b.score);
    if (score_a != score_b) {
      return score_a > score_b;
    }
    if (ties == DeepVmTies::kPublishedSimulation && a.architecture != b.architecture) {
      return a.architecture == DeepVmArchitecture::kSingleAnchor;
    }
    if (ties != DeepVmTies::kCheaper) {
      return left < right;
    }
    return std::tuple(RoundTo40Bits(a.usd_per_hour), a.nodes + a.remotes, left) <
           std::tuple(RoundTo40Bits(b.usd_per_hour), b.nodes + b.remotes, right);
  });
  std::vector<DeepVmChoice> best;
  for (size_t i = 0; i < std::min(order.size(), answers_max); ++i) {
    best.push_back(choices[order[i]]);
  }
  return best;
}

std::optional<DeepVmChoice> SolveWithoutScaling(const DeepVmProblem& problem) {
  std::vector<DeepVmChoice> choices;
  AddSingleAnchor(problem, false, &choices);
  AddTiering(problem, false, &choices);
  const auto best = std::max_element(
      choices.begin(), choices.end(), [](const DeepVmChoice& a, const DeepVmChoice& b) {
        return RoundTo40Bits(a.score) < RoundTo40Bits(b.score);
      });
  return best == choices.end() ? std::nullopt : std::optional(*best);
}

std::optional<DeepVmChoice> MostNodes(const DeepVmProblem& problem) {
  std::optional<DeepVmChoice> best;
  for (size_t v = 0; v < problem.trainers.size(); ++v) {
    const int spot = SpotNodesWithin(problem.trainers[v], problem.usd_per_hour_max);
    if (spot > 0 && (!best || spot + 1 > best->nodes)) {
      best = Anchored(problem, v, spot + 1, true);
    }
  }
  return best;
}

std::optional<DeepVmChoice> FastestType(const DeepVmProblem& problem) {
  std::optional<DeepVmChoice> best;
  for (size_t v = 0; v < problem.trainers.size(); ++v) {
    const int spot = SpotNodesWithin(problem.trainers[v], problem.usd_per_hour_max);
    const bool is_faster =
        !best || problem.trainers[v].flops > problem.trainers[best->trainer].flops;
    if (spot > 0 && is_faster) {
      best = Anchored(problem, v, spot + 1, true);
    }
  }
  return best;
}

double SpeedOf(const DeepVmProblem& problem, const DeepVmChoice& choice) {
  const DeepVmTrainer& trainer = problem.trainers[choice.trainer];
  return trainer.flops * choice.nodes * ScalingFactor(trainer.curve, choice.nodes);
}

double PublishedSimulationSpeedOf(const DeepVmProblem& problem, const DeepVmChoice& choice) {
  return SpeedOf(problem, choice) * choice.nodes;
}

const DeepVmTrainer* PublishedTrainerOf(const std::string& device) {
  // Section 4 and the released program; measured on g3s.xlarge, g4dn.xlarge and g5.xlarge.
  static const DeepVmTrainer kPublished[] = {
      {"M60", 0, 0, 0, 100, {0.1408559584, 14.49263334, 13.53250952}, 0},
      {"T4", 0, 0, 0, 377, {0.1338806402, 12.87424514, 6.176666667}, 0},
      {"A10G", 0, 0, 0, 696, {0.08533428072, 20.06669931, 4.962225551}, 0},
  };
  const auto* const found = std::ranges::find(kPublished, device, &DeepVmTrainer::name);
  return found == std::end(kPublished) ? nullptr : found;
}

}  // namespace ps::provisioner
