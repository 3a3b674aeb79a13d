#pragma once

#include <cstdint>
#include <vector>

#include "tests/sim/scenario.h"

namespace ps::sim {

/// Every scenario that is smaller than this one in one field, and that can be simulated.
std::vector<Scenario> SmallerScenarios(const Scenario& scenario);

/// The smallest scenario that was found to break the same promise as `scenario` does: with fewer
/// faults, workers, epochs and samples, and less of a bad network. A change moves every later
/// random draw, so a smaller scenario is tried with `seeds` seeds before it is given up. Returns
/// `scenario` itself when it breaks nothing.
Scenario Minimise(const Scenario& scenario, uint32_t seeds);

}  // namespace ps::sim
