#pragma once

#include <cstdint>

#include "tests/sim/scenario.h"

namespace ps::sim {

/// The smallest scenario that was found to break the same promise as `scenario` does: with fewer
/// faults, workers, epochs and samples, and less of a bad network. A change moves every later
/// random draw, so a smaller scenario is tried with `seeds` seeds before it is given up. Returns
/// `scenario` itself when it breaks nothing.
Scenario Minimise(const Scenario& scenario, uint32_t seeds);

}  // namespace ps::sim
