#pragma once

#include <memory>

#include "provisioner/planner/planner.h"

namespace ps::provisioner {

// The strategies behind MakeStrategy.

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
