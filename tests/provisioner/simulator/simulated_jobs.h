#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "provisioner/simulator/simulation_input.h"
#include "ps/base/random.h"
#include "tests/provisioner/strategies/trace_counts.h"

namespace ps::provisioner {

inline constexpr double kMinuteS = 60;

/// Workers of 10 samples/s each, a step of 20 samples.
inline SimulatedJob JobOfWorkers(int workers) {
  SimulatedJob job;
  job.spot_usd_per_hour = 1;
  job.on_demand_usd_per_hour = 3;
  job.lost_s = 2;
  job.step_samples = 20;
  for (int n = 0; n <= workers; ++n) {
    job.samples_per_s.push_back(10.0 * n);
  }
  return job;
}

/// Counts that stay for a while, then go up or down by up to 8.
inline std::vector<CapacityStep> RandomSteps(uint64_t seed, uint32_t nodes, double end_s) {
  Random random(seed);
  std::vector<CapacityStep> steps;
  uint32_t count = nodes / 2;
  for (double at_s = 0; at_s < end_s; at_s += 30 + random.Unit() * 900) {
    const auto change = static_cast<uint32_t>(random.Below(9));
    count = random.Chance(0.5) ? std::min(nodes, count + change) : count - std::min(count, change);
    steps.push_back({at_s, count});
  }
  return steps;
}

/// The first minutes of p3.csv.
inline std::vector<CapacityStep> RecordedSteps(size_t minutes) {
  const std::vector<uint32_t> counts = MinutesOfP3();
  std::vector<CapacityStep> steps;
  for (size_t i = 0; i < std::min(minutes, counts.size()); ++i) {
    steps.push_back({static_cast<double>(i) * kMinuteS, counts[i]});
  }
  return steps;
}

}  // namespace ps::provisioner
