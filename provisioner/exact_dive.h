#pragma once

#include <cstdint>
#include <vector>

#include "provisioner/exact_region.h"
#include "provisioner/fleet_judge.h"

namespace ps::provisioner {

/// Walks through the fleets of one region, depth first, a slot at a time. What the slots that are
/// still open can add is known beforehand for every number of workers left, so that a node costs a
/// few additions.
class ExactDive {
 public:
  ExactDive(const ExactBasis& basis, FleetJudge* judge, BestFleets* best)
      : basis_(basis), judge_(*judge), best_(*best) {}

  /// Puts every fleet of the region that is among the best into the list. False: gave up after
  /// `nodes_max` nodes; what was found stays.
  bool Run(
      const Frame& frame, const Region& region, const Relaxation& relaxation, uint64_t nodes_max);

  /// Judges one fleet; keeps it when it meets the goal.
  void Consider(const std::vector<int>& counts, const ServerChoice& server);

  uint64_t nodes() const { return nodes_; }

 private:
  /// What a depth adds, and the most and least that all after it can.
  struct Level {
    Slot slot;
    double key = 0;     // of the Lagrangian
    double weight = 0;  // of the batch mean's constraints
    double other_weight = 0;
    double rate_max = 0;
    double rate_min = 0;
    int previous = -1;              // depth of the offer that has to be exhausted first
    std::vector<double> key_least;  // per number of workers left, from this depth on
    std::vector<double> rate_most;
    std::vector<double> rate_least;  // of the least rates
    std::vector<double> weight_most;
    std::vector<double> other_weight_most;
  };

  struct Sums {
    double key = 0;
    double rate = 0;
    double rate_min = 0;
    double weight = 0;
    double other_weight = 0;
    double usd_per_s = 0;
    double samples_per_s = 0;
    double samples_per_s_min = 0;
    double square_sum = 0;  // of the workers' samples/s
    double fastest = 0;
  };

  void Prepare(const Relaxation& relaxation);
  /// A table of every level: what it and the levels after it can add at least or at most.
  void FillTables(double Level::*value, bool is_least, std::vector<double> Level::*table);
  /// The Lagrangian from which on no fleet is better than the worst in the list.
  void UpdateLimit();
  bool Descend(size_t depth, int left, const Sums& sums);
  void Leaf(const Sums& sums);

  const ExactBasis& basis_;
  FleetJudge& judge_;
  BestFleets& best_;

  // Of the region in hand.
  const Frame* frame_ = nullptr;
  const Region* region_ = nullptr;
  const Relaxation* relaxation_ = nullptr;
  std::vector<Level> levels_;
  std::vector<int> counts_;  // per offer
  double key_limit_ = 0;
  double usd_limit_ = 0;
  uint64_t nodes_left_ = 0;
  uint64_t nodes_ = 0;
};

}  // namespace ps::provisioner
