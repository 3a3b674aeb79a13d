#pragma once

#include "worker/model/layers/pool_parts.h"

namespace ps::worker {

inline constexpr LayerRule kMaxPoolLayer = {
    .resolve = ResolvePool,
    .op = PoolOp<kernels::PoolKind::kMax>,
    .flops = PoolFlops,
    .kept_floats = [](const Layer& layer) { return layer.out.element_count(); },  // the winners
};

}  // namespace ps::worker
