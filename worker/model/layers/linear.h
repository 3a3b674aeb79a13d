#pragma once

#include <fmt/core.h>

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline Status ResolveLinear(Layer* layer, std::vector<TensorSpec>* tensors) {
  const proto::LayerConfig& config = layer->config;
  PS_TRY(CheckCount("out", config.out, 1, kWidthMax));
  const bool is_sequence = layer->in.kind == ShapeKind::kSequence;
  if (!layer->in.is_flat() && !is_sequence) {
    return Misfit(
        "input " + layer->in.ToString() +
        " is not flat; put flatten or global_avg_pool in front of it");
  }
  layer->out.channels = config.out;
  if (layer->in.channels > kElementsMax / config.out) {
    return Misfit(fmt::format(
        "a weight of {}x{} has more than {} elements",
        config.out,
        layer->in.ToString(),
        kElementsMax));
  }
  tensors->push_back(Weight({config.out, layer->in.channels}));
  if (is_sequence) {
    tensors->back().init_scale = kSequenceInit;
  }
  if (config.bias) {
    tensors->push_back(Constant("bias", config.out, 0));
  }
  return Status::Ok();
}

inline constexpr LayerRule kLinearLayer = {
    .resolve = ResolveLinear,
    .op = [](const Layer& layer, const LayerOpOptions& options, uint64_t) -> kernels::OpSpec {
      return kernels::LinearOptions{
          .in_features = layer.in.channels,
          .out_features = layer.out.channels,
          .bias = layer.config.bias,
          .input_gradient = options.input_gradient,
          .precision = options.precision};
    },
    .flops = [](const Layer& layer) { return 2 * layer.in.channels * layer.out.element_count(); },
    .factor_values =
        [](const Layer& layer, int64_t samples) {
          return LargestFactors(samples * layer.in.height, layer.in.channels, layer.out.channels);
        },
    .traits = {.takes_relu = true, .is_by_token = true},
};

}  // namespace ps::worker
