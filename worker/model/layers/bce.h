#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kBceLayer = {
    .resolve = RefuseInnerLoss, .loss = kernels::LossKind::kBce};

}  // namespace ps::worker
