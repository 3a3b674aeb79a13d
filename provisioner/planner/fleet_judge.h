#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "provisioner/planner/planner.h"
#include "provisioner/planner/zone_prices.h"

namespace ps::provisioner {

/// What a fleet costs and how long it takes.
struct Verdict {
  SpeedPrediction speed;
  double steps = 0;
  double seconds = 0;      // expected, start included
  double usd = 0;          // expected
  double start_s = 0;      // until it trains
  double traffic_usd = 0;  // of `usd`
  int workers = 0;
  int server_hosts = 0;
};

/// Standard deviation of the relative error of the speed of a fleet of that size.
double SpeedDeviation(const PlanProblem& problem, const FleetSize& size);

/// Standard deviation of the relative error of the time that a fleet takes to the goal's loss:
/// speed and steps together.
double TimeDeviation(const PlanProblem& problem, const FleetTraits& fleet, int server_hosts);

/// Evaluates the fleets of one problem. The problem has to outlive it. Not for two threads at once.
class FleetJudge {
 public:
  explicit FleetJudge(const PlanProblem& problem);

  /// counts: per offer, one worker at least. Allocates nothing unless something crosses zones,
  /// whose places go to `places`.
  Verdict Judge(
      std::span<const int> counts, int server_offer, int hosts, std::vector<int>* places = nullptr);

  FleetChoice Choose(std::span<const int> counts, int server_offer, int hosts);

  /// Such a fleet's expected seconds, of which `start_s` are its start, at the goal's confidence.
  double SecondsAtConfidence(
      const FleetTraits& fleet, int server_hosts, double seconds, double start_s) const;

  /// The goal holds at its confidence.
  bool MeetsGoal(const Verdict& verdict) const;

  /// Not empty, and of a number of workers that the problem allows.
  bool IsSizeAllowed(std::span<const int> counts) const;

  /// Whether neither a pool nor a quota of vCPUs is used beyond what it has, the servers counted,
  /// and the servers have memory for so many workers.
  bool Fits(std::span<const int> counts, int server_offer, int hosts) const;

  /// The latter alone.
  bool HasMemory(int workers, int server_offer, int hosts) const;

  /// Whether these are the counts that run already, kept or not.
  bool IsHeld(std::span<const int> counts) const;

  ServerSide Side(int server_offer, int hosts) const;

  /// Rent of a second of the fleet with its servers, in USD, where it is the least.
  double UsdPerSecond(std::span<const int> counts, int server_offer, int hosts) const;

  /// What the fleet with its servers costs when it is there for so long, each worker in the place
  /// where it costs least. Sets `traffic_usd` of the verdict, of which it needs the speed and
  /// `start_s`; to `places`, if any, where they are: see FleetChoice.
  double Usd(
      std::span<const int> counts,
      int server_offer,
      double seconds,
      Verdict* verdict,
      std::vector<int>* places = nullptr);

  /// Until such a fleet trains: 0 for the held one, else the take-over, and until the slowest of
  /// its new machines is up.
  double StartSeconds(std::span<const int> counts, int server_offer) const;

  /// No fleet's is more.
  double start_most_s() const;

  const ZonePrices& prices() const { return prices_; }

  /// Expected seconds times this are met at the goal's confidence, by such a fleet.
  double QuantileFactor(const FleetTraits& fleet, int server_hosts) const;

  /// No fleet's is less.
  double quantile_factor() const { return quantile_factor_; }

  /// Offers of the same class, cheapest first, equal prices in the order of the problem. A fleet
  /// that takes from one before the ones ahead of it are exhausted is never better, if IsLadder.
  const std::vector<std::vector<int>>& ladders() const { return ladders_; }

  /// Not where traffic may make the offer that is cheaper to rent the dearer one.
  bool IsLadder(int server_offer, size_t worker_class) const {
    return is_ladder_[static_cast<size_t>(server_offer)][worker_class];
  }

  /// Whether no offer is used while one of the same class has quota left that is never dearer.
  bool ClimbsLadders(std::span<const int> counts, int server_offer) const;

  uint64_t evaluated() const { return evaluated_; }

 private:
  const PlanProblem& problem_;
  double quantile_ = 0;  // of a standard normal, at the goal's confidence
  double quantile_factor_ = 1;
  std::vector<std::vector<int>> ladders_;  // per class
  ZonePrices prices_;
  std::vector<std::vector<bool>> is_ladder_;  // per server offer and class
  std::vector<int> class_counts_;             // scratch
  uint64_t evaluated_ = 0;
};

/// The order of answers: cheaper, then fewer workers, then earlier offers, then fewer servers of
/// earlier offers. Costs that differ by rounding alone are equal.
bool IsBetter(const FleetChoice& a, const FleetChoice& b);

/// The best few, best first, no fleet twice.
class BestFleets {
 public:
  explicit BestFleets(int most) : most_(static_cast<size_t>(most)) {}

  void Add(FleetChoice choice);

  /// A fleet dearer than this can't get in.
  double usd_limit() const;

  /// Workers of the last one that is in; only for a full list.
  int last_workers() const;

  bool is_full() const { return fleets_.size() == most_; }

  std::vector<FleetChoice> Take() && { return std::move(fleets_); }

  const std::vector<FleetChoice>& fleets() const { return fleets_; }

 private:
  size_t most_;
  std::vector<FleetChoice> fleets_;
};

int WorkersOf(std::span<const int> counts);

/// How many of an offer run already.
int RunningOf(const PlanProblem& problem, size_t offer);

/// Per pool of the problem: what is left of it beside these servers and all that is held. Below 0
/// where they do not fit.
std::vector<int> RoomBeside(const PlanProblem& problem, int server_offer, int hosts);

/// The most workers that the quotas allow.
int64_t MostWorkers(const PlanProblem& problem);

}  // namespace ps::provisioner
