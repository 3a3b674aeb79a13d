#pragma once

#include "worker/model/layers/pool_parts.h"

namespace ps::worker {

inline constexpr LayerRule kAvgPoolLayer = {
    .resolve = ResolvePool,
    .op = PoolOp<kernels::PoolKind::kAverage>,
    .flops = PoolFlops,
};

}  // namespace ps::worker
