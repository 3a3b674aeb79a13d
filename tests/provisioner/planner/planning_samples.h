#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "provisioner/model/spotdnn_model.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/planner.h"

namespace ps::provisioner {

/// A problem together with the models that it points at.
struct PlanningSample {
  std::unique_ptr<SpeedModel> speed;
  std::unique_ptr<LossModel> loss;
  PlanProblem problem;
};

struct SampleShape {
  int classes = 3;
  int quota_max = 4;
  int server_offers = 1;
  int hosts_max = 2;
  bool has_heterogeneity = true;
  bool has_two_markets = false;  // spot and on-demand offers of every class
  bool has_held = false;
  bool may_drop_held = false;  // a plan need not keep them
  // Classes two by two share a quota, as minibatches of one type do, the first two with a server.
  bool has_pools = false;
  SpotDnnVariant variant = SpotDnnVariant::kPaper;
  bool is_queue = false;    // the closed queue instead, with or without overlap and workers in step
  bool has_curves = false;  // steps as curves tell them, of a few fleets, instead of spotDNN's
  bool is_under_way = false;  // what is left of a run at loss 1.25, above every goal
  bool has_overlap = false;   // full overlap, so that some exchanges are late and others are not
  // Above 1: rounds of so many minibatches, with steps that cost more than the curves say and a
  // kill that loses half a round.
  int local_steps = 1;
  int workers_listed = 0;     // of a run; more share their learning rate. 0: all have all of it
  bool has_reckoned = false;  // some types were not measured, and their speed is in doubt
  // Servers hold the job from some number of hosts on, and gradients of some number of workers.
  bool has_memory = false;
  // Offers are sold in some of three zones of two regions, servers are on offer in each, and what
  // crosses costs about as much as workers do.
  bool has_zones = false;
  bool has_start_up = false;  // types are up after times of their own
  bool has_vcpus = false;     // classes two by two share vCPUs, the first two with a server
};

/// A random cluster and a goal that some fleets meet and others miss. Same seed, same problem.
PlanningSample RandomSample(uint64_t seed, const SampleShape& shape);

/// spotDNN's released parameters for ResNet-110 on CIFAR-100: p3.2xlarge, g4dn.4xlarge, g3.8xlarge,
/// g3.16xlarge, p2.8xlarge, and one server that costs nothing.
PlanningSample ResNet110(
    SpotDnnVariant variant, double loss, double seconds_max, const RunProgress& progress = {});

/// Every fleet that quotas allow, with all servers; `judge` is of the problem.
void ForEachFleet(
    const PlanProblem& problem,
    const FleetJudge& judge,
    const std::function<void(const std::vector<int>& counts, int server, int hosts)>& see);

/// What `strategy` answers. An error fails the test, and the answer is empty.
PlanAnswer Solve(const char* strategy, const PlanProblem& problem);

}  // namespace ps::provisioner
