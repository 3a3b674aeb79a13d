#include "provisioner/queue_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "provisioner/closed_queue.h"
#include "provisioner/step_time.h"
#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double TransferSeconds(double bytes, double bytes_per_s) {
  return bytes_per_s > 0 ? bytes / bytes_per_s : 0;
}

/// What the servers' side of a prediction is made of.
struct Servers {
  double link_bytes_per_s = 0;  // of all hosts; 0: no limit
  StationPair stations;
};

Servers ServersOf(
    const JobTraffic& traffic, const proto::QueueFit& fit, const ServerSide& servers) {
  Servers result;
  result.link_bytes_per_s = servers.hosts * servers.link_bytes_per_s;
  const double overhead_s = fit.overhead_s / servers.hosts / 2;
  result.stations.push_s =
      TransferSeconds(traffic.push_bytes, result.link_bytes_per_s) + overhead_s;
  result.stations.pull_s =
      TransferSeconds(traffic.pull_bytes, result.link_bytes_per_s) + overhead_s;
  return result;
}

/// What the queue asks of a fleet: sums over its workers, alone.
struct FleetRates {
  double rate = 0;         // exchanges per second
  double rate_square = 0;  // sum of the workers' squares
  // Means, weighed by the rates' squares.
  double compute_s = 0;
  double communication_s = 0;

  /// The workers of equal rates that these amount to.
  double customers() const { return rate * rate / rate_square; }

  double alone_s() const { return rate / rate_square; }
};

FleetRates EqualWorkers(double workers, double cycle_s) {
  return {.rate = workers / cycle_s, .rate_square = workers / (cycle_s * cycle_s)};
}

/// The classes present in a fleet, without allocation. Arrays side by side, so that two classes
/// are worked on at once; an odd number of them is filled up with one of no workers.
struct Fleet {
  static constexpr size_t kMax = QueueSpeedModel::kClassesMax;
  size_t size = 0;
  // A cycle is the longer of two, for a wait w: exposed_s + (1 - overlap) w while computation is
  // long enough to hide behind, hidden_s + w beyond.
  std::array<double, kMax> exposed_s;
  std::array<double, kMax> hidden_s;
  std::array<double, kMax> workers;
  std::array<int, kMax> classes;

  size_t even_size() const { return (size + 1) / 2 * 2; }
};

CycleParts AloneParts(const FreeTimes& times, const StationPair& stations) {
  return {
      .compute_s = times.compute_s,
      .pcie_s = times.pcie_s,
      .communication_s =
          std::max(times.push_s, stations.push_s) + std::max(times.pull_s, stations.pull_s)};
}

CycleParts Waiting(CycleParts parts, double wait_s) {
  parts.communication_s += wait_s;
  return parts;
}

/// Puts those present into the fleet. Requires: room for them.
FleetRates Gather(
    std::span<const int> counts,
    std::span<const FreeTimes> times,
    const StationPair& stations,
    double overlap,
    Fleet* fleet) {
  FleetRates rates;
  for (size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] <= 0) {
      continue;
    }
    const CycleParts parts = AloneParts(times[k], stations);
    const double sum_s = parts.compute_s + parts.pcie_s + parts.communication_s;
    const size_t i = fleet->size++;
    fleet->exposed_s[i] = sum_s - overlap * parts.communication_s;
    fleet->hidden_s[i] = sum_s - parts.compute_s;
    fleet->workers[i] = counts[k];
    fleet->classes[i] = static_cast<int>(k);
    const double rate = 1 / std::max(fleet->exposed_s[i], fleet->hidden_s[i]);
    rates.rate += counts[k] * rate;
    const double weight = counts[k] * rate * rate;
    rates.rate_square += weight;
    rates.compute_s += weight * parts.compute_s;
    rates.communication_s += weight * parts.communication_s;
  }
  rates.compute_s /= rates.rate_square;
  rates.communication_s /= rates.rate_square;
  if (fleet->size < fleet->even_size()) {
    const size_t i = fleet->size;
    fleet->exposed_s[i] = fleet->hidden_s[i] = 1;
    fleet->workers[i] = 0;
  }
  return rates;
}

/// The rate of servers that share, for as many equal workers as the fleet amounts to.
double SharingRate(const FleetRates& fleet, const StationPair& stations, double overlap) {
  const double customers = fleet.customers();
  const double alone_s = fleet.alone_s();
  const double think_s = std::max(alone_s - stations.sum(), 0.0);
  const double hidden_alone_s = std::min(overlap * fleet.communication_s, fleet.compute_s);
  const double shorter_max_s = fleet.compute_s - hidden_alone_s;
  if (overlap <= 0 || shorter_max_s <= 0) {
    return SharedRate(customers, think_s, stations);
  }
  // Waiting that hides behind computation brings the next exchange on sooner, which lengthens the
  // wait, by less than it brings on: one fixed point. What hides is convex in what is brought on,
  // so that Newton's steps come from below.
  constexpr int kRounds = 12;
  // The last step is not followed by a queue but by a parabola through the last two.
  constexpr double kLastStep = 5e-5;
  constexpr double kTinyStep = 1e-8;
  constexpr double kSlopesExactMax = 64;  // customers
  double shorter_s = 0;
  double before_s = 0;
  double slope_before = 0;
  for (int i = 0; i < kRounds; ++i) {
    const double left_s = std::max(think_s - shorter_s, 0.0);
    const SharedCycle cycle = SharedCycleOf(customers, left_s, stations);
    const double wait_s = std::max(cycle.cycle_s - (alone_s - shorter_s), 0.0);
    const double gap_s = overlap * (fleet.communication_s + wait_s) - hidden_alone_s - shorter_s;
    const double slope = left_s > 0 ? cycle.slope : 0;
    const double fall = std::max(1 - overlap + overlap * slope, 1e-12);
    double step_s = gap_s / fall;
    const bool has_parabola = i > 0 && customers <= kSlopesExactMax;
    if (std::abs(step_s) <= (has_parabola ? kLastStep : kTinyStep) * alone_s) {
      const double bend =
          shorter_s > before_s ? (slope_before - slope) / (shorter_s - before_s) / 2 : 0;
      step_s += overlap * bend * step_s * step_s / fall;
      return customers / (cycle.cycle_s - (slope - bend * step_s) * step_s);
    }
    before_s = shorter_s;
    slope_before = slope;
    shorter_s = std::max(shorter_s + step_s, 0.0);
    if (!(shorter_s < shorter_max_s)) {
      break;
    }
  }
  shorter_s = std::min(shorter_s, shorter_max_s);
  return SharedRate(customers, std::max(think_s - shorter_s, 0.0), stations);
}

/// Exchanges per second of the fleet.
double FleetRate(
    const FleetRates& fleet, const StationPair& stations, double overlap, double wait_share) {
  const double slower_s = stations.slower();
  const double turns = slower_s > 0 ? std::min(fleet.rate, 1 / slower_s) : fleet.rate;
  if (wait_share <= 0 || slower_s <= 0) {
    return turns;
  }
  const double shared = std::min(SharingRate(fleet, stations, overlap), turns);
  if (wait_share >= 1) {
    return shared;
  }
  return turns * (1 - std::pow(1 - shared / turns, 1 / wait_share));
}

/// The wait at which the fleet's rates add up to `rate`.
double WaitAt(const Fleet& fleet, const FleetRates& rates, double rate, double overlap) {
  if (rates.rate <= rate) {
    return 0;
  }
  double workers = 0;
  for (size_t i = 0; i < fleet.size; ++i) {
    workers += fleet.workers[i];
  }
  double low_s = 0;
  double high_s = workers / rate;  // a cycle is at least its wait
  const double growth = 1 - overlap;
  // What the equal workers would wait that these amount to.
  double wait_s = std::clamp(rates.customers() / rate - rates.alone_s(), low_s, high_s);
  constexpr int kSteps = 60;
  // Of the last step. Where nothing hides, the error after it is its square.
  const double accuracy = overlap > 0 ? 1e-12 : 1e-7;
  for (int i = 0; i < kSteps; ++i) {
    double sums[2] = {0, 0};
    double slopes[2] = {0, 0};  // of -sum
    for (size_t k = 0; k < fleet.even_size(); k += 2) {
      for (size_t lane = 0; lane < 2; ++lane) {
        const double exposed_s = fleet.exposed_s[k + lane] + growth * wait_s;
        const double hidden_s = fleet.hidden_s[k + lane] + wait_s;
        const double one = 1 / std::max(exposed_s, hidden_s);
        const double all = fleet.workers[k + lane] * one;
        sums[lane] += all;
        slopes[lane] += all * one * (exposed_s > hidden_s ? growth : 1);
      }
    }
    const double sum = sums[0] + sums[1];
    const double slope = slopes[0] + slopes[1];
    (sum > rate ? low_s : high_s) = wait_s;
    // Newton's step on 1 / sum, which is straight for equal workers.
    const double next_s = wait_s + (sum - rate) * sum / (rate * slope);
    const bool is_inside = slope > 0 && next_s >= low_s && next_s <= high_s;
    wait_s = is_inside ? next_s : (low_s + high_s) / 2;
    if (is_inside && std::abs(sum - rate) <= accuracy * rate) {
      break;
    }
  }
  return wait_s;
}

/// How long exchanges wait, whether that slows workers down or not, at the slower station: there
/// each finds what the others have of its queue, R = d (1 + (n - 1) / n rate R).
double HiddenWait(
    const FleetRates& fleet, double rate, const StationPair& stations, double wait_share) {
  const double slower_s = stations.slower();
  const double others = std::max(1 - 1 / fleet.customers(), 0.0) * rate * slower_s;
  return others < 1 ? wait_share * slower_s * others / (1 - others) : 0;
}

}  // namespace

QueueSpeedModel::QueueSpeedModel(
    std::vector<WorkerClass> classes, const JobTraffic& traffic, const proto::QueueFit& fit)
    : classes_(std::move(classes)), traffic_(traffic), fit_(fit) {
  PS_CHECK(classes_.size() <= kClassesMax) << classes_.size() << " classes of workers";
  PS_CHECK(traffic_.local_steps >= 1);
  for (const WorkerClass& worker : classes_) {
    times_.push_back(
        {.compute_s = worker.compute_s * traffic_.local_steps,
         .pcie_s = PcieSeconds(worker, traffic_),
         .push_s = TransferSeconds(traffic_.push_bytes, worker.link_bytes_per_s),
         .pull_s = TransferSeconds(traffic_.pull_bytes, worker.link_bytes_per_s)});
  }
}

SpeedPrediction QueueSpeedModel::Predict(
    std::span<const int> counts, const ServerSide& servers) const {
  PS_CHECK(counts.size() == classes_.size());
  const Servers side = ServersOf(traffic_, fit_, servers);
  const double overlap = traffic_.overlap;
  Fleet fleet;
  const FleetRates rates = Gather(counts, times_, side.stations, overlap, &fleet);
  PS_CHECK(fleet.size > 0) << "a fleet without workers";
  const double rate = FleetRate(rates, side.stations, overlap, fit_.wait_share);
  const double wait_s = WaitAt(fleet, rates, rate, overlap);
  const double hidden_wait_s =
      overlap > 0 ? std::max(HiddenWait(rates, rate, side.stations, fit_.wait_share) - wait_s, 0.0)
                  : 0;
  FleetSum sum;
  for (size_t i = 0; i < fleet.size; ++i) {
    const auto k = static_cast<size_t>(fleet.classes[i]);
    const WorkerClass& worker = classes_[k];
    const CycleParts parts = Waiting(AloneParts(times_[k], side.stations), wait_s);
    sum.AddLate(counts[k], LateShare(Waiting(parts, hidden_wait_s), traffic_));
    sum.Add(counts[k], traffic_.local_steps / CycleSeconds(parts, overlap), worker.samples);
    const bool is_link_shorter =
        side.link_bytes_per_s > 0 &&
        (worker.link_bytes_per_s <= 0 || side.link_bytes_per_s <= worker.link_bytes_per_s);
    const double server_s = is_link_shorter ? parts.communication_s : wait_s;
    sum.AddShares(counts[k], parts, server_s * 2 >= parts.communication_s);
  }
  SpeedPrediction prediction = sum.Take();
  prediction.server_busy = std::min(rate * side.stations.slower(), 1.0);
  return prediction;
}

double QueueSpeedModel::WaitSeconds(std::span<const int> counts, const ServerSide& servers) const {
  const Servers side = ServersOf(traffic_, fit_, servers);
  Fleet fleet;
  const FleetRates rates = Gather(counts, times_, side.stations, traffic_.overlap, &fleet);
  const double rate = FleetRate(rates, side.stations, traffic_.overlap, fit_.wait_share);
  return WaitAt(fleet, rates, rate, traffic_.overlap);
}

std::vector<double> QueueSpeedModel::StepSeconds(
    std::span<const int> counts, const ServerSide& servers) const {
  const double wait_s = WaitSeconds(counts, servers);
  const Servers side = ServersOf(traffic_, fit_, servers);
  std::vector<double> seconds;
  for (const FreeTimes& times : times_) {
    const CycleParts parts = Waiting(AloneParts(times, side.stations), wait_s);
    seconds.push_back(CycleSeconds(parts, traffic_.overlap) / traffic_.local_steps);
  }
  return seconds;
}

namespace {

// What rounding may add to another fleet's rate or wait.
constexpr double kRounding = 1 + 1e-9;

// Waits below this share of a cycle are lost in rounding.
constexpr double kWaitSlack = 1e-4;

// Between the fewest and the most workers, a fleet in step was seen 0.9 % busier than both.
constexpr double kInStepSlack = 1.02;

// Of the search for the busiest fleet that waits so long.
constexpr int kRateStepsMax = 10;
constexpr double kRateAccuracy = 1e-4;

}  // namespace

double QueueSpeedModel::ShortestCycle(const StationPair& stations) const {
  double cycle_min_s = kInfinity;
  for (const FreeTimes& times : times_) {
    cycle_min_s =
        std::min(cycle_min_s, CycleSeconds(AloneParts(times, stations), traffic_.overlap));
  }
  return cycle_min_s;
}

Range QueueSpeedModel::Loads(int workers, const ServerSide& servers) const {
  PS_CHECK(workers > 0);
  const StationPair stations = ServersOf(traffic_, fit_, servers).stations;
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
  wait_most_s += kWaitSlack * std::min(alone_s, stations.sum());
  const double excess_all_s = workers / rate_all - alone_s - wait_most_s;
  if (excess_all_s <= 0) {
    return rate_all;
  }
  // Of all fleets that wait as long, the busiest is one of as few and fast workers as possible, or
  // one of as many and slow ones: as many of the fastest, or all of them slowed down, as wait so.
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

SpeedBounds QueueSpeedModel::Bound(int workers, const ServerSide& servers) const {
  return BoundWithin(workers, servers, Loads(workers, servers));
}

SpeedBounds QueueSpeedModel::BoundWithin(
    int workers, const ServerSide& servers, const Range& load) const {
  SpeedBounds bounds;
  const StationPair stations = ServersOf(traffic_, fit_, servers).stations;
  bounds.fleet_steps_per_s =
      RateMost(workers, stations, load.high) * traffic_.local_steps * kRounding;
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
