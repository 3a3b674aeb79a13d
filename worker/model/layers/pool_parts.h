#pragma once

#include <fmt/core.h>

#include "worker/model/layer_shapes.h"

namespace ps::worker {

// What the pools have in common.

inline Status ResolvePool(Layer* layer, std::vector<TensorSpec>* /*tensors*/) {
  proto::LayerConfig& config = layer->config;
  PS_TRY(CheckImage(layer->in));
  config.stride = config.stride == 0 ? config.kernel : config.stride;
  PS_TRY(ApplyWindow(layer));
  if (2 * config.padding > config.kernel) {
    return Misfit(fmt::format(
        "padding {} is more than half of kernel {}, so a window could hold nothing but "
        "padding",
        config.padding,
        config.kernel));
  }
  return Status::Ok();
}

template <kernels::PoolKind kind>
kernels::OpSpec PoolOp(const Layer& layer, const LayerOpOptions& /*options*/, uint64_t /*index*/) {
  return kernels::PoolOptions{
      .kind = kind,
      .channels = layer.in.channels,
      .in_height = layer.in.height,
      .in_width = layer.in.width,
      .kernel_height = layer.config.kernel,
      .kernel_width = layer.config.kernel,
      .stride = layer.config.stride,
      .padding = layer.config.padding};
}

inline int64_t PoolFlops(const Layer& layer) {
  return int64_t{layer.config.kernel} * layer.config.kernel * layer.out.element_count();
}

}  // namespace ps::worker
