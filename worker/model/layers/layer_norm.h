#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline Status ResolveLayerNorm(Layer* layer, std::vector<TensorSpec>* tensors) {
  if (!layer->in.is_flat()) {
    PS_TRY(CheckSequence(layer->in));
  }
  PS_TRY(CheckRange("epsilon", layer->config.epsilon, 1e-12, 1));
  AppendScaleAndShift(layer->in.channels, tensors);
  return Status::Ok();
}

inline constexpr LayerRule kLayerNormLayer = {
    .resolve = ResolveLayerNorm,
    .op = [](const Layer& layer, const LayerOpOptions& options, uint64_t) -> kernels::OpSpec {
      return kernels::LayerNormOptions{
          .features = layer.in.channels,
          .epsilon = layer.config.epsilon,
          .input_gradient = options.input_gradient};
    },
    .flops = [](const Layer& layer) { return kNormFlops * layer.out.element_count(); },
    .traits = {.is_by_token = true},
};

}  // namespace ps::worker
