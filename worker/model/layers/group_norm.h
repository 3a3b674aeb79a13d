#pragma once

#include <fmt/core.h>

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline Status ResolveGroupNorm(Layer* layer, std::vector<TensorSpec>* tensors) {
  const proto::LayerConfig& config = layer->config;
  PS_TRY(CheckImage(layer->in));
  PS_TRY(CheckRange("epsilon", config.epsilon, 1e-12, 1));
  const int64_t channels = layer->in.channels;
  PS_TRY(CheckCount("groups", config.groups, 1, kWidthMax));
  if (channels % config.groups != 0) {
    return Misfit(fmt::format("groups {} do not divide the {} channels", config.groups, channels));
  }
  AppendScaleAndShift(channels, tensors);
  return Status::Ok();
}

inline constexpr LayerRule kGroupNormLayer = {
    .resolve = ResolveGroupNorm,
    .op = [](const Layer& layer, const LayerOpOptions& options, uint64_t) -> kernels::OpSpec {
      return kernels::GroupNormOptions{
          .channels = layer.in.channels,
          .height = layer.in.height,
          .width = layer.in.width,
          .groups = layer.config.groups,
          .epsilon = layer.config.epsilon,
          .input_gradient = options.input_gradient};
    },
    .flops = [](const Layer& layer) { return kNormFlops * layer.out.element_count(); },
    .kept_floats = [](const Layer& layer) { return 2 * layer.in.channels; },  // mean and factor
};

}  // namespace ps::worker
