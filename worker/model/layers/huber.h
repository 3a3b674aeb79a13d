#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kHuberLayer = {
    .resolve = RefuseInnerLoss, .loss = kernels::LossKind::kHuber};

}  // namespace ps::worker
