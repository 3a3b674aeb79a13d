#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

/// Every model is trained for it; at the end of the layers it is left out.
inline constexpr LayerRule kSoftmaxCrossEntropyLayer = {
    .resolve =
        [](Layer* /*layer*/, std::vector<TensorSpec>* /*tensors*/) {
          return Misfit("the loss can stand only at the end of model.layers; take it out here");
        },
};

}  // namespace ps::worker
