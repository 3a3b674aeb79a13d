#pragma once

#include <span>
#include <vector>

#include "provisioner/planner/exact/ratio_search.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/planner.h"

namespace ps::provisioner {

// The parts of "exact" that know what a family of fleets can do at best.
//
// A region is a family: one server side, an exact number of workers n, a range of the model's load,
// a range of the batch mean and a range for the first class present, where classes are ordered by
// the speed that one worker can have, fastest first. For fixed n and servers, price P, steps X per
// second and samples V per second are bounded by sums that are linear in the counts. So is
// Y = constant X + slope V, the steps as far as they are worth the region's best (BatchLine): with
// J, the fewest steps of the region, j / X >= J / Y. So
//     minimise P j / X   subject to   j / X <= T,  V within batch_mean * X,  sum of counts = n
// has a linear-fractional relaxation, with J / Y for j / X. Its Lagrangian needs no more than
// sorting the offers by one number. Any multipliers give a valid bound; good ones are kept for the
// dive into the region.

struct Multipliers {
  double rate = 0;      // USD/s per step/s of the region's best steps
  double batch = 0;     // USD/s per unit of the batch constraint
  double crowding = 0;  // USD/s per unit of crowding
};

struct Region {
  int server = 0;  // index of a server side
  int workers = 0;
  Range load;  // see SpeedModel::Loads
  Range batch_mean;
  int first_low = 0;  // range of the first class present, by rank
  int first_high = 0;
  int cuts = 0;              // that made it
  bool is_relaxed = false;   // `bound` is that of the relaxation, else a cheaper one
  double usd_bound = 0;      // no fleet of the region costs less
  Multipliers multipliers;   // of the relaxation, once it was found
  double rate_narrowed = 0;  // steps/s by which the range of loads was narrowed last
};

/// An offer as a region sees it.
struct Slot {
  int offer = 0;
  int worker_class = 0;
  int rank = 0;              // of its class
  double usd_per_s = 0;      // of rent, at least
  double usd_run_per_s = 0;  // with the traffic of its steps, while it trains, at least
  double usd_per_step = 0;   // rent and traffic, at least
  double start_s = 0;        // of a new one
  double samples = 0;        // of a step
  double rate_max = 0;       // steps/s of one worker
  double rate_min = 0;
  double worth = 0;       // rate_max in the region's best steps
  double crowding = 0;    // see SpeedBounds
  int pool = -1;          // that it is of; see PlanProblem
  int vcpu_quota = -1;    // likewise
  int vcpus = 0;          // of one
  bool is_ladder = true;  // see FleetJudge
  int low = 0;            // fewest and most of it in the region
  int high = 0;
};

/// One server side to choose.
struct ServerChoice {
  int offer = 0;
  int hosts = 1;
  ServerSide side;
  double usd_per_s = 0;
  std::vector<int> pools;  // per pool: what these servers leave for workers
  int workers_max = 0;     // that they have memory for
  std::vector<int> vcpus;  // per quota of vCPUs: what these servers and all that is held leave
};

/// What holds for all fleets of one size and a range of loads behind one server side.
struct Frame {
  int server = -1;
  int workers = 0;
  Range load;
  std::vector<Slot> slots;  // low and high as in the problem
  double fleet_rate_max = 0;
  Range late;
  bool is_exact = false;
  int rank_count = 0;
  int rank_held = 0;  // rank of the first class that is held; rank_count - 1 when none is
};

struct Relaxation {
  bool is_void = true;  // no fleet of the region can meet the goal
  // Not relaxed: what its fleets need excludes loads below this, a good part of the region's.
  bool is_too_wide = false;
  double load_least = 0;
  std::vector<Slot> slots;  // with the region's bounds
  // The batch mean's range as two constraints: sum of weight * count >= 0. `weights` keeps the mean
  // where most steps are needed, `other_weights` where fewest are.
  std::vector<double> weights;
  std::vector<double> other_weights;
  Range batch_mean;  // the region's or less
  Range heterogeneity;
  BatchLine line;  // of that batch_mean
  double steps_min = 0;
  double rate_needed = 0;  // steps/s, any and best ones, that the goal asks of the region's fleets
  double rate_max = 0;     // steps/s that some fleet could reach
  double worth_max = 0;    // in the region's best steps
  double usd_bound = 0;
  double usd_per_s_min = 0;      // of rent
  double usd_run_per_s_min = 0;  // with traffic, while it trains
  double start_s = 0;            // until it trains, at least
  Multipliers multipliers;
  double batch_effect = 1;  // steps at the range's worse end over those at its better end
  double first_effect = 1;  // likewise for the range of heterogeneity
  double load_effect = 1;   // the fastest that workers could be over the slowest
  std::vector<std::vector<int>> fleets;  // per slot: fleets on the relaxation's edge, worth a look
};

/// Everything that does not change during a search.
class ExactBasis {
 public:
  /// The problem has to outlive it.
  ExactBasis(const PlanProblem& problem, const FleetJudge& judge);

  const PlanProblem& problem() const { return problem_; }

  const std::vector<ServerChoice>& servers() const { return servers_; }

  int workers_min() const { return workers_min_; }

  int workers_max() const { return workers_max_; }

  /// Longest j / X that the goal allows after such a start; infinity for none.
  double RunSecondsMax(double start_s) const;

  /// Highest price of a second that the goal allows, with slack; infinity for none.
  double usd_per_s_max() const { return usd_per_s_max_; }

  Range LoadsOf(int server, int workers) const;
  Frame MakeFrame(int server, int workers, const Range& load) const;

  /// All fleets of a frame, with a bound that is cheap to compute. False: none can meet the goal.
  bool WholeFrame(const Frame& frame, Region* region) const;

  /// Fleets that cost more than `usd_limit` are of no interest. A region that is relaxed already
  /// keeps its bound and multipliers, and gets no fleets.
  Relaxation Relax(const Frame& frame, const Region& region, double usd_limit) const;

 private:
  /// What is known of a region's fleets on the way to its relaxation.
  struct Family {
    Relaxation* relaxation = nullptr;
    Range batch_mean;
    Range heterogeneity;
    Range late;
    bool is_larger_better = true;  // larger batches need fewer steps
    double run_seconds_max = 0;
  };

  /// Finds heterogeneity, steps_min and rate_needed, and narrows batch_mean. False: no fleet can
  /// meet the goal.
  bool BoundSteps(const Region& region, const RatioProblem& ratio, Family* family) const;
  void MeasureEffects(int workers, Family* family) const;
  /// Lets `ratio` count the region's best steps. False: no fleet makes as many as the goal asks.
  bool CountBestSteps(
      const Frame& frame, const Range& batch_mean, RatioProblem* ratio, Relaxation* out) const;

  /// What every fleet of these slots waits until it trains, but the one that runs already.
  double StartLeast(int server, const std::vector<Slot>& slots) const;

  const PlanProblem& problem_;
  const FleetJudge& judge_;
  std::vector<ServerChoice> servers_;
  int workers_min_ = 0;
  int workers_max_ = 0;
  bool runs_ = false;  // something does already
  double usd_per_s_max_ = 0;
};

}  // namespace ps::provisioner
