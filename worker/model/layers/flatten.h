#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kFlattenLayer = {
    .resolve =
        [](Layer* layer, std::vector<TensorSpec>* /*tensors*/) {
          layer->out = {layer->in.element_count(), 1, 1};
          return Status::Ok();
        },
    .op = [](const Layer& layer, const LayerOpOptions& /*options*/, uint64_t) -> kernels::OpSpec {
      return kernels::FlattenOptions{
          .channels = layer.in.channels, .height = layer.in.height, .width = layer.in.width};
    },
    .flops = [](const Layer& /*layer*/) { return int64_t{0}; },
};

}  // namespace ps::worker
