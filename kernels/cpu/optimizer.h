#pragma once

#include "kernels/optimizer.h"

namespace ps::kernels {

/// Thread: the owner of the buffers.  Cost: memory traffic of 12 bytes per element for plain sgd
/// and 8 more for each slot; memory bound.
/// Returns false when an element was left out.
bool ApplyUpdate(
    const OptimizerRule& rule, const UpdateStep& step, const OptimizerBuffers& buffers);

}  // namespace ps::kernels
