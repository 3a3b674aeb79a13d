#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/planner.h"

namespace ps::provisioner {

// The strategies behind MakeStrategy.

/// What strategies that judge one fleet after the other have in common. `try_fleets` is called for
/// every server side, and puts the fleets that meet the goal into the list.
using TryFleets = std::function<void(int server_offer, int hosts, FleetJudge*, BestFleets*)>;
Result<PlanAnswer> SolveByTrial(
    const PlanProblem& problem, std::string_view strategy, const TryFleets& try_fleets);

/// Every combination of counts and servers. The oracle that tests compare the others with.
std::unique_ptr<Strategy> MakeExhaustiveStrategy();

/// The optimum, by branch and bound. See exact/region.h.
std::unique_ptr<Strategy> MakeExactStrategy();

enum class WindowRules : unsigned char {
  kPaper,      // Algorithm 1: windows of workers_min to workers_max of the sorted list
  kPrototype,  // any size below the whole list, around its end, with the prototype's rounding
};
std::unique_ptr<Strategy> MakeWindowStrategy(WindowRules rules);

/// Plans as if workers never met at the servers, and tells what that plan really does: the answer
/// may miss the goal.
std::unique_ptr<Strategy> MakeIdealStrategy();

/// The best fleet of one worker class.
std::unique_ptr<Strategy> MakeHomogeneousStrategy();

/// The optimum of the on-demand offers alone.
std::unique_ptr<Strategy> MakeOnDemandStrategy();

}  // namespace ps::provisioner
