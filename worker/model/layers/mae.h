#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kMaeLayer = {
    .resolve = RefuseInnerLoss, .loss = kernels::LossKind::kMae};

}  // namespace ps::worker
