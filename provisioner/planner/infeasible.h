#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "provisioner/planner/planner.h"

namespace ps::provisioner {

/// Why `strategy` found no plan, and the nearest goals that can be met. Requires: a problem that
/// CheckProblem accepts.
Infeasible ExplainInfeasible(const PlanProblem& problem, std::string_view strategy);

/// The same for a search that its watch ended before any fleet was found.
Infeasible StoppedEarly();

/// A goal that a fleet meets before its first step, as the fitted curve begins below it, needs no
/// plan: `answer` becomes one without fleets that says so.
void RefuseMetGoal(const PlanProblem& problem, PlanAnswer* answer);

/// Why the time of this fleet to the goal's loss can't be predicted, in one line; empty when it
/// can.
std::string WhyNoTime(const PlanProblem& problem, const FleetChoice& choice);

/// How hard the exact search tries.
struct ExactEffort {
  double gap = 0;  // the answer may cost that share more than the optimum
  uint64_t regions_max = std::numeric_limits<uint64_t>::max();  // then it takes what it has
  // Walks that take more nodes are given up for a cut, if one can help; longer ones where steps
  // hardly spread. Short walks try every kind of cut on small problems.
  uint64_t nodes_max = 50;
  uint64_t nodes_max_uniform = 500;
  int cuts_per_doubling = 5;  // of the nodes
  // Most nodes of a walk through a region that no cut can narrow. A walk that is given up there
  // proves nothing.
  uint64_t nodes_max_uncut = std::numeric_limits<uint64_t>::max();
};

/// The problem without limits of cost, where a second of every fleet costs the same: its cheapest
/// fleet is the fastest of the problem's, whatever it costs. Each number of hosts is a server offer
/// of its own, in the order of `hosts_of`, (offer, hosts) of the problem's.
struct EqualPrices {
  PlanProblem problem;
  std::vector<std::pair<int, int>> hosts_of;
};

EqualPrices WithEqualPrices(const PlanProblem& problem);

/// The exact search alone: no reasons when nothing is found. Requires: as above.
PlanAnswer SolveExactly(const PlanProblem& problem, const ExactEffort& effort);

}  // namespace ps::provisioner
