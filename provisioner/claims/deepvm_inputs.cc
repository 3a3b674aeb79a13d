#include "provisioner/claims/deepvm_inputs.h"

#include <string>

namespace ps::provisioner {
namespace {

constexpr int kExclusiveNodes = 128 / 4 - 1;    // the program's ranges end before the quota
constexpr int kExclusiveRemotes = 256 / 4 - 1;  // of virtual processors

}  // namespace

DeepVmProblem DeepVmProgramInput(double usd_per_hour_max) {
  DeepVmProblem problem;
  problem.usd_per_hour_max = usd_per_hour_max;
  const auto add =
      [&](const char* name, const char* device, double on_demand, double spot, double gbit_per_s) {
        DeepVmTrainer trainer = *PublishedTrainerOf(device);
        trainer.name = name;
        trainer.on_demand_usd_per_hour = on_demand;
        trainer.spot_usd_per_hour = spot;
        trainer.gbit_per_s = gbit_per_s;
        trainer.count_max = kExclusiveNodes;
        problem.trainers.push_back(trainer);
      };
  add("g3s", "M60", 0.75, 0.225, 10);
  add("g4dn", "T4", 0.526, 0.1578, 25);
  add("g5", "A10G", 1.006, 0.3018, 10);
  problem.remotes = {
      {"c3", 0.21, 0.3, 7.5, kExclusiveRemotes},
      {"c4", 0.199, 1.7, 7.5, kExclusiveRemotes},
      {"t3", 0.1664, 5, 16, kExclusiveRemotes},
      {"c5", 0.17, 10, 8, kExclusiveRemotes},
      {"m6i", 0.192, 12.5, 16, kExclusiveRemotes},
      {"d3", 0.499, 15, 32, kExclusiveRemotes},
      {"c5n", 0.216, 25, 10.5, kExclusiveRemotes},
      {"c6in", 0.2268, 30, 8, kExclusiveRemotes}};
  return problem;
}

DeepVmProblem DeepVmSimulationInput(double usd_per_hour_max) {
  DeepVmProblem problem = DeepVmProgramInput(usd_per_hour_max);
  problem.trainers = {
      {"A", 0.225, 0.75, 10, 100, {0.14, 14.5, 13.5}, 255},
      {"B", 0.1578, 0.526, 25, 377, {0.13, 12.9, 6.2}, 255},
      {"C", 0.3018, 1.006, 10, 696, {0.09, 20.1, 5}, 255},
      {"D", 0.165, 0.55, 15, 700, {0.2, 10, 5}, 255},
      {"E", 0.1104, 0.368, 1.7, 100, {0.1, 20, 15}, 255},
      {"F", 0.3708, 1.236, 25, 800, {0.1, 15, 10}, 255},
      {"G", 0.2919, 0.973, 30, 200, {0.1, 15, 10}, 255},
      {"H", 0.0756, 0.252, 5, 150, {0.2, 10, 5}, 255},
      {"I", 0.4866, 1.622, 30, 900, {0.2, 9.9, 7}, 255},
      {"J", 0.066, 0.22, 5, 50, {0.1, 20, 15}, 255}};
  for (DeepVmRemote& remote : problem.remotes) {
    remote.count_max = 255;
  }
  return problem;
}

}  // namespace ps::provisioner
