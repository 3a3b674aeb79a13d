#include "provisioner/simulator/simulation_input.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

bool IsNumber(double value) {
  return std::isfinite(value) && value >= 0;
}

}  // namespace

Status CheckSimulation(const SimulatedJob& job, double end_s) {
  if (job.samples_per_s.size() < 2 || !std::ranges::is_sorted(job.samples_per_s) ||
      job.samples_per_s.front() != 0 || !(job.samples_per_s[1] > 0) ||
      !IsNumber(job.samples_per_s.back())) {
    return Status::InvalidArgument(
        "a simulation needs the samples/s of 0, 1, ... workers, which begin with 0 and never fall");
  }
  if (!(job.interval_s > 0) || !IsNumber(job.interval_s) || !IsNumber(job.start_s) ||
      !IsNumber(job.lost_s) || !IsNumber(job.notice_s) || !IsNumber(job.detect_s) ||
      !IsNumber(job.samples_wanted) || !IsNumber(job.deadline_s) ||
      !IsNumber(job.spot_usd_per_hour) || !IsNumber(job.on_demand_usd_per_hour) ||
      !IsNumber(job.servers_usd_per_hour)) {
    return Status::InvalidArgument("times, samples and prices of a simulation are 0 or more");
  }
  if (!IsNumber(job.egress_usd_per_sample) ||
      !(job.launch_failures >= 0 && job.launch_failures < 1)) {
    return Status::InvalidArgument(
        "the price of egress is 0 or more, and the share of starts that fail is below 1");
  }
  const bool are_prices = std::ranges::all_of(job.spot_prices, [](const PriceStep& step) {
    return IsNumber(step.at_s) && IsNumber(step.usd_per_hour);
  });
  if (!are_prices || !std::ranges::is_sorted(job.spot_prices, {}, &PriceStep::at_s) ||
      (!job.spot_prices.empty() && job.spot_prices.front().at_s > 0)) {
    return Status::InvalidArgument(
        "prices over time are 0 or more, begin with the trace, and ascend in time");
  }
  if (!(end_s > 0) || !std::isfinite(end_s)) {
    return Status::InvalidArgument("the trace has no time in it: its last line is at 0");
  }
  return Status::Ok();
}

std::vector<SpotMachine> MachinesOf(
    std::span<const CapacityStep> steps, double end_s, uint64_t seed) {
  Random random(seed);
  std::vector<SpotMachine> machines;
  std::vector<size_t> there;
  for (const CapacityStep& step : steps) {
    if (step.at_s >= end_s) {
      break;
    }
    while (there.size() > step.nodes) {
      const size_t victim = random.Below(there.size());
      machines[there[victim]].end_s = step.at_s;
      there.erase(there.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    while (there.size() < step.nodes) {
      there.push_back(machines.size());
      machines.push_back({.begin_s = step.at_s, .end_s = std::numeric_limits<double>::infinity()});
    }
  }
  return machines;
}

}  // namespace ps::provisioner
