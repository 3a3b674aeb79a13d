#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "provisioner/planner/exact/fill_table.h"
#include "provisioner/planner/exact/region.h"
#include "provisioner/planner/fleet_judge.h"

namespace ps::provisioner {

/// Walks through the fleets of one region, depth first, a slot at a time. What the slots that are
/// still open can add at least is known beforehand for every number of workers left. It is convex,
/// so that counts which exceed a limit are skipped together.
class ExactDive {
 public:
  /// `goes_on` is asked now and then; false gives the walk up.
  ExactDive(
      const ExactBasis& basis, FleetJudge* judge, BestFleets* best, std::function<bool()> goes_on)
      : basis_(basis), judge_(*judge), best_(*best), goes_on_(std::move(goes_on)) {}

  /// Puts every fleet of the region that is among the best into the list. False: gave up after
  /// `nodes_max` nodes; what was found stays.
  bool Run(
      const Frame& frame, const Region& region, const Relaxation& relaxation, uint64_t nodes_max);

  /// Judges one fleet; keeps it when it meets the goal.
  void Consider(const std::vector<int>& counts, const ServerChoice& server);

  uint64_t nodes() const { return nodes_; }

 private:
  /// What has to stay at or below a limit, each a sum over the workers chosen: the Lagrangian, the
  /// best steps of a second (negative), the speed at worst, the crowding, the two sides of the
  /// batch mean (negative), the price.
  enum Limited : unsigned char {
    kKey,
    kRate,
    kRateMin,
    kCrowding,
    kWeight,
    kOtherWeight,
    kPrice,
    kLimitedCount
  };

  using Values = std::array<double, kLimitedCount>;

  struct Level {
    Slot slot;
    int position = 0;  // among the region's slots: cheaper ones of a class come first
    Values values{};
    int previous = -1;  // depth of the offer that has to be exhausted first
    int low_after = 0;  // fewest and most workers of all levels after it
    int high_after = 0;
  };

  struct Sums {
    Values values{};
    double rate = 0;
    double rate_min = 0;
    double usd_per_s = 0;      // of rent
    double usd_run_per_s = 0;  // with traffic
    double samples_per_s = 0;
    double samples_per_s_min = 0;
    double square_sum = 0;  // of the workers' samples/s
    double fastest = 0;

    void Add(const Level& level, int count, size_t limited_count);
  };

  void Prepare(const Relaxation& relaxation);
  /// Builds the tables, and moves together the values of those that some fleet can exceed.
  void KeepBinding();
  /// The Lagrangian from which on no fleet is better than the worst in the list.
  void UpdateLimit();
  bool Descend(size_t depth, int left, const Sums& sums);
  void Leaf(const Sums& sums);

  const ExactBasis& basis_;
  FleetJudge& judge_;
  BestFleets& best_;
  std::function<bool()> goes_on_;

  // State of the region in hand.
  const Frame* frame_ = nullptr;
  const Region* region_ = nullptr;
  const Relaxation* relaxation_ = nullptr;
  std::vector<Level> levels_;
  std::array<FillTable, kLimitedCount> tables_;  // what the open levels add at least
  size_t limited_count_ = 0;  // of the Limited in use: the Lagrangian and those that can bind
  Values limits_{};
  std::vector<FillTable::Slot> fill_slots_;  // scratch
  std::vector<double> class_keys_;           // scratch
  std::vector<int> counts_;                  // per offer
  std::vector<int> vcpus_;                   // as pools_, of the quotas of vCPUs
  std::vector<int> pools_;  // what is left of each beside the counts chosen and all least ones
  double usd_limit_ = 0;
  uint64_t nodes_left_ = 0;
  uint64_t nodes_ = 0;
};

}  // namespace ps::provisioner
