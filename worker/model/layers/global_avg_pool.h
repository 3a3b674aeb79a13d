#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kGlobalAvgPoolLayer = {
    .resolve =
        [](Layer* layer, std::vector<TensorSpec>* /*tensors*/) {
          layer->out = {layer->in.channels, 1, 1};
          return Status::Ok();
        },
    .op = [](const Layer& layer, const LayerOpOptions& /*options*/, uint64_t) -> kernels::OpSpec {
      return kernels::PoolOptions{
          .kind = kernels::PoolKind::kAverage,
          .channels = layer.in.channels,
          .in_height = layer.in.height,
          .in_width = layer.in.width,
          .kernel_height = layer.in.height,
          .kernel_width = layer.in.width,
          .stride = 1};
    },
    .flops = [](const Layer& layer) { return layer.in.element_count(); },
};

}  // namespace ps::worker
