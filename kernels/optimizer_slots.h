#pragma once

#include "kernels/optimizers_generated.h"

namespace ps::kernels {

/// State buffers that the rule keeps per parameter buffer, each of its size, zero at the start.
inline int OptimizerSlotCount(const OptimizerRule& rule) {
  return WithOptimizer(rule, {}, [](const auto& optimizer) { return optimizer.kSlots; });
}

}  // namespace ps::kernels
