// Bounds of the queue's model.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "provisioner/model/closed_queue.h"
#include "provisioner/model/queue_model.h"
#include "provisioner/model/queue_parts.h"
#include "provisioner/model/step_time.h"
#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Most that rounding adds to another fleet's rate or wait.
constexpr double kRounding = 1 + 1e-9;

// Waits below this share of a cycle are lost in rounding.
constexpr double kWaitSlack = 1e-4;

// Between the fewest and the most workers, a fleet in step was seen 0.9 % busier than both.
constexpr double kInStepSlack = 1.02;

// The search for the busiest fleet with a given wait.
constexpr int kRateStepsMax = 10;
constexpr double kRateAccuracy = 1e-4;

// The tangent to fleets that wait so long is taken where they amount to that part of their workers:
// those that are worth their price lie around it.
constexpr double kTangentAt = 0.96;
constexpr double kTangentStep = 0.01;
constexpr double kTangentWaits = 4;
// Error of the tangent, as a part of the fleet's rate alone.
constexpr double kTangentSlack = 1e-5;

// Above this share of busy time waits are too long for tangents.
constexpr double kBusyMax = 1 - 1e-6;

/// The cycle, without waits, of `customers` equal workers that wait `wait_s`; 0 if not found.
double CycleThatWaits(
    double customers, double wait_s, double guess_s, const StationPair& stations) {
  constexpr int kSteps = 12;
  constexpr double kAccuracy = 1e-9;
  constexpr double kLost = 1e-6;  // waits below that share of a cycle are, in rounding
  double think_s = std::max(guess_s - stations.sum(), 0.0);
  for (int i = 0; i < kSteps; ++i) {
    const SharedCycle cycle = SharedCycleOf(customers, think_s, stations);
    const double excess_s = cycle.cycle_s - think_s - stations.sum() - wait_s;
    if (wait_s < kLost * cycle.cycle_s) {
      return 0;
    }
    if (std::abs(excess_s) <= kAccuracy * wait_s) {
      return think_s + stations.sum();
    }
    const double next_s = think_s + excess_s / std::max(1 - cycle.slope, 1e-9);
    if (next_s <= 0 && think_s == 0) {
      return 0;
    }
    think_s = std::max(next_s, 0.0);
  }
  return 0;
}

}  // namespace

double QueueSpeedModel::ShortestCycle(const StationPair& stations) const {
  double cycle_min_s = kInfinity;
  for (const FreeTimes& times : times_) {
    cycle_min_s =
        std::min(cycle_min_s, CycleSeconds(AloneParts(times, stations), traffic_.overlap));
  }
  return cycle_min_s;
}

double QueueSpeedModel::WaitSlack(const StationPair& stations) const {
  return kWaitSlack * std::min(ShortestCycle(stations), stations.sum());
}

bool QueueSpeedModel::IsPlainSharing(const StationPair& stations) const {
  return traffic_.overlap <= 0 && fit_.wait_share >= 1 && stations.slower() > 0;
}

Range QueueSpeedModel::Loads(int workers, const ServerSide& servers) const {
  PS_CHECK(workers > 0);
  const StationPair stations = QueueServersOf(traffic_, fit_, servers).stations;
  // At worst all others are ahead, at both stations.
  const double behind_all_s = (workers - 1) * stations.sum();
  if (traffic_.overlap > 0) {
    return {0, 2 * behind_all_s};  // waiting that hides counts for more than it takes
  }
  // The fleet that is fastest of all waits longest.
  const double alone_s = ShortestCycle(stations);
  const double rate =
      FleetRate(EqualWorkers(workers, alone_s), stations, traffic_.overlap, fit_.wait_share);
  const double wait_s = std::max(workers / rate - alone_s, 0.0);
  return {0, std::min(wait_s * kRounding, behind_all_s)};
}

double QueueSpeedModel::RateMost(
    int workers, const StationPair& stations, double wait_most_s) const {
  if (traffic_.overlap > 0) {
    // A mixed fleet can be faster than one of the fastest: what hides depends on who waits.
    const double slower_s = stations.slower();
    return slower_s > 0 ? 1 / slower_s : kInfinity;
  }
  const auto rate_of = [&](double count, double cycle_s) {
    return FleetRate(EqualWorkers(count, cycle_s), stations, 0, fit_.wait_share);
  };
  const double alone_s = ShortestCycle(stations);
  const double rate_all = rate_of(workers, alone_s);
  wait_most_s += WaitSlack(stations);
  const double excess_all_s = workers / rate_all - alone_s - wait_most_s;
  if (excess_all_s <= 0) {
    return rate_all;
  }
  // Among all fleets that wait as long, the busiest has as few and fast workers as possible, or
  // as many and slow ones: as many of the fastest, or all of them slowed down, as wait so.
  // Each share of those that are too many, or too fast, is found from above, where they wait too
  // long, by regula falsi (Illinois): any step of it bounds them.
  const auto busiest = [&](const auto& fleet_at) {
    double low = 0;
    double low_excess_s = -wait_most_s;
    double high = 1;
    double high_excess_s = excess_all_s;
    double rate = rate_all;
    int side = 0;
    for (int i = 0; i < kRateStepsMax && high - low > kRateAccuracy * high; ++i) {
      const double middle =
          (low * high_excess_s - high * low_excess_s) / (high_excess_s - low_excess_s);
      const auto [count, cycle_s] = fleet_at(middle);
      const double middle_rate = rate_of(count, cycle_s);
      const double excess_s = count / middle_rate - cycle_s - wait_most_s;
      if (excess_s <= 0) {
        low = middle;
        low_excess_s = excess_s;
        high_excess_s /= side < 0 ? 2 : 1;
        side = -1;
      } else {
        high = middle;
        high_excess_s = excess_s;
        rate = middle_rate;
        low_excess_s /= side > 0 ? 2 : 1;
        side = 1;
      }
    }
    return rate;
  };
  const double rate = std::max(
      busiest([&](double share) { return std::pair(share * workers, alone_s); }),
      busiest([&](double share) { return std::pair(1.0 * workers, alone_s / share); }));
  return fit_.wait_share < 1 ? rate * kInStepSlack : rate;
}

double QueueSpeedModel::LoadAtLeast(
    int workers, const ServerSide& servers, double steps_per_s) const {
  const StationPair stations = QueueServersOf(traffic_, fit_, servers).stations;
  const double rate = steps_per_s / traffic_.local_steps / kRounding;
  const double busy_push = rate * stations.push_s;
  const double busy_pull = rate * stations.pull_s;
  if (!IsPlainSharing(stations) || std::max(busy_push, busy_pull) >= kBusyMax) {
    return 0;
  }
  // Among fleets that are as busy, few and fast workers wait least, and never as long as in an
  // open queue.
  const double alone_s = ShortestCycle(stations);
  const double think_s = alone_s - stations.sum();
  const double wait_open_s =
      stations.push_s * busy_push / (1 - busy_push) + stations.pull_s * busy_pull / (1 - busy_pull);
  double low = rate * alone_s;
  double low_excess = -rate * std::max(busy_push, busy_pull);  // a guess
  double high = std::min(rate * (alone_s + wait_open_s), 1.0 * workers);
  double high_excess = SharedRate(high, think_s, stations) - rate;
  if (low >= high || high_excess <= 0) {
    return 0;
  }
  double least = low;  // no fewer customers are as busy
  int side = 0;
  for (int i = 0; i < kRateStepsMax && high - least > kRateAccuracy * high; ++i) {
    const double middle = (low * high_excess - high * low_excess) / (high_excess - low_excess);
    const double excess = SharedRate(middle, think_s, stations) - rate;
    if (excess <= 0) {
      low = least = middle;
      low_excess = excess;
      high_excess /= side < 0 ? 2 : 1;
      side = -1;
    } else {
      high = middle;
      high_excess = excess;
      low_excess /= side > 0 ? 2 : 1;
      side = 1;
    }
  }
  return std::max(least / rate - alone_s - WaitSlack(stations), 0.0);
}

std::vector<double> QueueSpeedModel::CrowdingWithin(
    int workers, const StationPair& stations, double wait_most_s) const {
  if (!IsPlainSharing(stations) || workers < 2) {
    return {};
  }
  // A fleet's rate r = sum of its workers' alone, and the sum s of their squares, tell how long it
  // waits. As s grows, so does the r of those that wait alike, ever more slowly: all that wait no
  // longer lie below the tangent to that curve.
  wait_most_s += WaitSlack(stations);
  const auto equal_at = [&](double customers) -> FleetRates {
    const double slower_s = stations.slower();
    const double open_rate = wait_most_s / (slower_s * (2 * slower_s + wait_most_s));
    const double cycle_s =
        CycleThatWaits(customers, wait_most_s, customers / open_rate - wait_most_s, stations);
    return cycle_s > 0 ? EqualWorkers(customers, cycle_s) : FleetRates();
  };
  const double customers = std::max(kTangentAt * workers, 1.5);
  const FleetRates at = equal_at(customers);
  const FleetRates near = at.rate > 0 ? equal_at(customers * (1 + kTangentStep)) : FleetRates();
  // Where workers wait longer than they work, a cycle alone is a small difference of long times,
  // less than the error of the queue's approximation.
  if (near.rate == 0 || wait_most_s * kTangentWaits > at.alone_s()) {
    return {};
  }
  const double slope = (near.rate - at.rate) / (near.rate_square - at.rate_square);
  const double most = at.rate * (1 + kTangentSlack) - slope * at.rate_square;
  std::vector<double> crowding;
  crowding.reserve(classes_.size());
  for (const FreeTimes& times : times_) {
    const double rate = 1 / CycleSeconds(AloneParts(times, stations), 0);
    crowding.push_back(rate - slope * rate * rate - most / workers);
  }
  return crowding;
}

SpeedBounds QueueSpeedModel::Bound(int workers, const ServerSide& servers) const {
  return BoundWithin(workers, servers, Loads(workers, servers));
}

SpeedBounds QueueSpeedModel::BoundWithin(
    int workers, const ServerSide& servers, const Range& load) const {
  SpeedBounds bounds;
  const StationPair stations = QueueServersOf(traffic_, fit_, servers).stations;
  // Where the whole range is asked for, it excludes no fleet.
  if (load.low > 0) {
    bounds.crowding = CrowdingWithin(workers, stations, load.high);
  }
  const double rate_most =
      bounds.crowding.empty() ? RateMost(workers, stations, load.high) : 1 / stations.slower();
  bounds.fleet_steps_per_s = rate_most * traffic_.local_steps * kRounding;
  bounds.steps_per_s.reserve(classes_.size());
  bounds.steps_per_s_min.reserve(classes_.size());
  bounds.late = {1, 1};
  for (const FreeTimes& times : times_) {
    const CycleParts alone = AloneParts(times, stations);
    const auto rate_at = [&](double wait_s) {
      return traffic_.local_steps / CycleSeconds(Waiting(alone, wait_s), traffic_.overlap);
    };
    const double late = LateShare(Waiting(alone, load.low), traffic_);
    bounds.late.low = std::min(bounds.late.low, late / kRounding);
    bounds.steps_per_s.push_back(rate_at(load.low));
    bounds.steps_per_s_min.push_back(rate_at(load.high));
  }
  return bounds;
}

}  // namespace ps::provisioner
