#include "provisioner/simulator/spot_bound.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "provisioner/simulator/simulation_input.h"

namespace ps::provisioner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// A machine that is held: it starts at first, and works from then on.
struct HeldSpan {
  double begin_s = 0;
  double works_s = 0;
  double end_s = 0;
};

/// Whenever a place is free, the machine that stays longest of those that could work takes it. A
/// machine that has a place keeps it, so there is a worker in each place as long as there are
/// machines enough.
std::vector<HeldSpan> SpansOf(
    const SimulatedJob& job, std::span<const SpotMachine> machines, double beyond_s) {
  // When each could work first, and its end.
  std::vector<std::pair<double, double>> arrivals;
  for (const SpotMachine& machine : machines) {
    const double ready_s = machine.begin_s + job.start_s;
    if (machine.end_s + beyond_s > ready_s) {
      arrivals.emplace_back(ready_s, machine.end_s + beyond_s);
    }
  }
  std::ranges::sort(arrivals);
  std::vector<HeldSpan> spans;
  std::multiset<double> working;  // their ends
  std::multiset<double> waiting;
  size_t next = 0;
  while (next < arrivals.size() || !working.empty()) {
    const double end_s = working.empty() ? kNever : *working.begin();
    const double arrival_s = next < arrivals.size() ? arrivals[next].first : kNever;
    const double now_s = std::min(end_s, arrival_s);
    if (now_s == kNever) {
      break;
    }
    working.erase(working.begin(), working.upper_bound(now_s));
    for (; next < arrivals.size() && arrivals[next].first <= now_s; ++next) {
      waiting.insert(arrivals[next].second);
    }
    waiting.erase(waiting.begin(), waiting.upper_bound(now_s));
    while (working.size() < job.workers_max() && !waiting.empty()) {
      const auto longest = std::prev(waiting.end());
      spans.push_back({std::max(0.0, now_s - job.start_s), now_s, *longest});
      working.insert(*longest);
      waiting.erase(longest);
    }
  }
  return spans;
}

/// What changes at a moment, in machines.
struct Change {
  int64_t available = 0;
  int64_t held = 0;
  int64_t working = 0;
  const PriceStep* price = nullptr;
};

std::map<double, Change> ChangesOf(
    const SimulatedJob& job,
    std::span<const SpotMachine> machines,
    const std::vector<HeldSpan>& spans) {
  std::map<double, Change> changes;
  changes[0] = {};
  for (const SpotMachine& machine : machines) {
    ++changes[machine.begin_s].available;
    --changes[machine.end_s].available;
  }
  for (const HeldSpan& span : spans) {
    ++changes[span.begin_s].held;
    ++changes[span.works_s].working;
    Change& end = changes[span.end_s];
    --end.held;
    --end.working;
  }
  for (const PriceStep& price : job.spot_prices) {
    changes[price.at_s].price = &price;
  }
  return changes;
}

}  // namespace

Result<SimulationResult> SpotBound(
    const SimulatedJob& job, std::span<const SpotMachine> machines, double end_s, double beyond_s) {
  PS_TRY(CheckSimulation(job, end_s));
  const std::vector<HeldSpan> spans = SpansOf(job, machines, beyond_s);
  SimulationBook book(job);
  SimulationResult& result = book.result;
  SimulatedFleet fleet;
  // Until the moment, or until the goal.
  const auto pass = [&](double until_s) {
    const double rate = job.samples_per_s[fleet.working];
    double seconds = until_s - result.seconds;
    const double left = job.samples_wanted - result.samples;
    if (job.samples_wanted > 0 && rate * seconds >= left) {
      seconds = left / rate;
      result.is_reached = true;
    }
    result.samples += rate * seconds;
    book.Pass(seconds, fleet, rate * seconds);
    result.seconds = result.is_reached ? result.seconds + seconds : until_s;
  };
  const auto changed = [](uint32_t count, int64_t by) {
    return static_cast<uint32_t>(int64_t{count} + by);
  };
  for (const auto& [at_s, change] : ChangesOf(job, machines, spans)) {
    pass(std::min(at_s, end_s));
    if (result.is_reached || at_s >= end_s) {
      break;
    }
    fleet.available = changed(fleet.available, change.available);
    fleet.spot = changed(fleet.spot, change.held);
    fleet.working = changed(fleet.working, change.working);
    if (change.price != nullptr) {
      book.SetSpotPrice(change.price->usd_per_hour);
    }
    book.Note(result.seconds, fleet, result.samples);
    ++result.events;
  }
  if (!result.is_reached && result.seconds < end_s) {
    pass(end_s);
  }
  book.Note(result.seconds, fleet, result.samples);
  result.starts = static_cast<uint64_t>(std::ranges::count_if(
      spans, [&](const HeldSpan& span) { return span.begin_s < result.seconds; }));
  return std::move(result);
}

}  // namespace ps::provisioner
