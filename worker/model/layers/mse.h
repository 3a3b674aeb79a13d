#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kMseLayer = {
    .resolve = RefuseInnerLoss, .loss = kernels::LossKind::kMse};

}  // namespace ps::worker
