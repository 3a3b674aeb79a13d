#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kSoftmaxCrossEntropyLayer = {
    .resolve = RefuseInnerLoss, .loss = kernels::LossKind::kSoftmaxCrossEntropy};

}  // namespace ps::worker
