#pragma once

#include <cstdint>
#include <vector>

namespace ps::provisioner {

/// Workers that compute, push for 1 s and pull for 1 s, over links that all transfers under way in
/// a direction share equally. Computing takes a tenth more or less at random.
struct LinkSimulation {
  std::vector<double> compute_s;  // by worker, in the mean
  bool has_overlap = false;       // a step's computing, push and pull go on at once
  uint64_t seed = 0;
};

/// Steps per second of all workers.
double SimulateLinks(const LinkSimulation& simulation, double until_s);

}  // namespace ps::provisioner
