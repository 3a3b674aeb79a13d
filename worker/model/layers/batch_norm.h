#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline Status ResolveBatchNorm(Layer* layer, std::vector<TensorSpec>* tensors) {
  const proto::LayerConfig& config = layer->config;
  PS_TRY(CheckImage(layer->in));
  PS_TRY(CheckRange("momentum", config.momentum, 1e-6, 1));
  PS_TRY(CheckRange("epsilon", config.epsilon, 1e-12, 1));
  const int64_t channels = layer->in.channels;
  AppendScaleAndShift(channels, tensors);
  tensors->push_back(Average("running_mean", channels, 0, config.momentum));
  tensors->push_back(Average("running_variance", channels, 1, config.momentum));
  return Status::Ok();
}

inline constexpr LayerRule kBatchNormLayer = {
    .resolve = ResolveBatchNorm,
    .op = [](const Layer& layer, const LayerOpOptions& options, uint64_t) -> kernels::OpSpec {
      return kernels::BatchNormOptions{
          .channels = layer.in.channels,
          .height = layer.in.height,
          .width = layer.in.width,
          .epsilon = layer.config.epsilon,
          .input_gradient = options.input_gradient};
    },
    .flops = [](const Layer& layer) { return kNormFlops * layer.out.element_count(); },
    .traits = {.takes_relu = true, .adds_side = true, .mixes_samples = true},
};

}  // namespace ps::worker
