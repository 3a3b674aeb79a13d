#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ps::provisioner {

// DeepVM: the cluster with the most floating-point operations for a dollar at a price of an hour.
// Kim et al., "DeepVM: Integrating Spot and On-Demand VMs for Cost-Efficient Deep Learning Clusters
// in the Cloud" (CCGrid 2024, arXiv 2403.05861), with what its released program computes. It knows
// no revocations, no deadline and no loss.

/// Speed-up over the number of nodes, fitted by a sigmoid: ceiling / (1 + exp(-slope (n -
/// middle))).
struct ScalingCurve {
  double slope = 0;
  double middle = 0;  // nodes at the sigmoid's turning point
  double ceiling = 0;
};

/// K(n): 1 up to the turning point, then the sigmoid over its tangent there. The ceiling cancels.
double ScalingFactor(const ScalingCurve& curve, double nodes);

/// Speed-up that the planner expects: the tangent up to the turning point, then the sigmoid.
double PlannedSpeedUp(const ScalingCurve& curve, double nodes);

/// Training nodes that one remote node can take checkpoints of, by the slower end's rate in Gbit/s.
/// The published table is a staircase; 0 below its first step.
int SaturationOf(double gbit_per_s);

/// A type that trains.
struct DeepVmTrainer {
  std::string name;
  double spot_usd_per_hour = 0;
  double on_demand_usd_per_hour = 0;
  double gbit_per_s = 0;
  double flops = 0;  // relative to other types
  ScalingCurve curve;
  int count_max = 0;
};

/// A type without accelerator that holds checkpoints, always on demand.
struct DeepVmRemote {
  std::string name;
  double on_demand_usd_per_hour = 0;
  double gbit_per_s = 0;
  double memory_gib = 0;
  int count_max = 0;
};

struct DeepVmProblem {
  std::vector<DeepVmTrainer> trainers;
  std::vector<DeepVmRemote> remotes;
  double usd_per_hour_max = 0;
  double memory_gib_min = 1;  // of a remote: a checkpoint times the buffers for it
};

/// Floating-point operations for a dollar, in units of `flops` times hours: by the spot price in
/// both architectures, as published.
double FlopPerDollar(const DeepVmTrainer& trainer);

enum class DeepVmArchitecture : unsigned char {
  kTiering,       // all nodes spot, checkpoints on remote nodes on demand
  kSingleAnchor,  // one node on demand keeps the checkpoints
};

struct DeepVmChoice {
  DeepVmArchitecture architecture = DeepVmArchitecture::kTiering;
  size_t trainer = 0;
  int nodes = 0;  // with the anchor
  size_t remote = 0;
  int remotes = 0;   // 0: single anchor
  double score = 0;  // FlopPerDollar x nodes x K
  double usd_per_hour = 0;
};

/// How equal scores are ordered. Scores are compared to 40 bits.
enum class DeepVmTies : unsigned char {
  kPublished,            // tiering first, then by the order of types, then by counts
  kPublishedSimulation,  // the same, the single anchor first
  kCheaper,              // by the price of an hour, then by fewer nodes
};

/// The best `answers_max` fleets, best first; empty where none is within the price.
std::vector<DeepVmChoice> SolveDeepVm(
    const DeepVmProblem& problem, DeepVmTies ties, size_t answers_max = 3);

/// The published ablation without K. It prefers the single anchor among equals.
std::optional<DeepVmChoice> SolveWithoutScaling(const DeepVmProblem& problem);

/// The published baselines, both with a single anchor that they put on top of `count_max`.
std::optional<DeepVmChoice> MostNodes(const DeepVmProblem& problem);
std::optional<DeepVmChoice> FastestType(const DeepVmProblem& problem);

/// Speed of a fleet: flops x nodes x K.
double SpeedOf(const DeepVmProblem& problem, const DeepVmChoice& choice);

/// What the published simulation (Fig. 7) draws instead: SpeedOf times the nodes once more, which
/// favours large fleets.
double PublishedSimulationSpeedOf(const DeepVmProblem& problem, const DeepVmChoice& choice);

/// The figures that DeepVM published for an accelerator (M60, T4, A10G), alone in its instance.
/// Null for others.
const DeepVmTrainer* PublishedTrainerOf(const std::string& device);

}  // namespace ps::provisioner
