#pragma once

#include <cstdint>
#include <vector>

namespace ps::provisioner {

/// Workers that compute, push for 1 s and pull for 1 s, over links that all transfers under way in
/// a direction share equally. Computing takes more or less at random.
struct LinkSimulation {
  std::vector<double> compute_s;  // by worker, in the mean
  double deviation = 0.1;         // standard deviation of computing, of its mean
  double burst_s = 0;             // what a link that has rested passes at once (a token bucket)
  bool has_overlap = false;       // a step's computing, push and pull go on at once
  uint64_t seed = 0;
};

/// Steps per second of all workers.
double SimulateLinks(const LinkSimulation& simulation, double until_s);

}  // namespace ps::provisioner
