#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kDropoutLayer = {
    .resolve =
        [](Layer* layer, std::vector<TensorSpec>* /*tensors*/) {
          return CheckRange("rate", layer->config.rate, 0, 0.99);
        },
    .op = [](const Layer& layer, const LayerOpOptions& options, uint64_t index) -> kernels::OpSpec {
      return kernels::DropoutOptions{
          .elements = layer.in.element_count(),
          .rate = layer.config.rate,
          .seed = options.seed,
          .layer = index};
    },
    .traits = {.runs_in_place = true},
};

}  // namespace ps::worker
