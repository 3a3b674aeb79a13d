#pragma once

#include <fmt/core.h>

#include <numeric>

#include "worker/model/layer_shapes.h"

namespace ps::worker {

/// Input channels that an output channel sees.
inline int64_t ChannelsOfGroup(const Layer& layer) {
  return layer.in.channels / layer.config.groups;
}

inline Status CheckConv2dGroups(const Layer& layer) {
  const int64_t groups = layer.config.groups;
  PS_TRY(CheckCount("groups", groups, 1, kWidthMax));
  const int64_t in = layer.in.channels;
  const int64_t out = layer.config.out;
  if (in % groups == 0 && out % groups == 0) {
    return Status::Ok();
  }
  return Misfit(fmt::format(
      "groups {} do not divide both the {} channels of its input and the {} of its output; allowed "
      "are the divisors of {}",
      groups,
      in,
      out,
      std::gcd(in, out)));
}

inline Status ResolveConv2d(Layer* layer, std::vector<TensorSpec>* tensors) {
  proto::LayerConfig& config = layer->config;
  PS_TRY(CheckImage(layer->in));
  config.stride = config.stride == 0 ? 1 : config.stride;
  config.groups = config.groups == 0 ? 1 : config.groups;
  PS_TRY(CheckCount("out", config.out, 1, kWidthMax));
  PS_TRY(CheckConv2dGroups(*layer));
  PS_TRY(ApplyWindow(layer));
  layer->out.channels = config.out;
  const int64_t window = int64_t{config.kernel} * config.kernel;
  const int64_t channels = ChannelsOfGroup(*layer);
  if (channels * window > kElementsMax / config.out) {
    return Misfit(fmt::format("its weight has more than {} elements", kElementsMax));
  }
  tensors->push_back(Weight({config.out, channels, config.kernel, config.kernel}));
  if (config.bias) {
    tensors->push_back(Constant("bias", config.out, 0));
  }
  return Status::Ok();
}

inline constexpr LayerRule kConv2dLayer = {
    .resolve = ResolveConv2d,
    .op = [](const Layer& layer, const LayerOpOptions& options, uint64_t) -> kernels::OpSpec {
      return kernels::Conv2dOptions{
          .in_channels = layer.in.channels,
          .in_height = layer.in.height,
          .in_width = layer.in.width,
          .out_channels = layer.out.channels,
          .kernel = layer.config.kernel,
          .stride = layer.config.stride,
          .padding = layer.config.padding,
          .bias = layer.config.bias,
          .input_gradient = options.input_gradient,
          .precision = options.precision,
          .groups = layer.config.groups};
    },
    .flops =
        [](const Layer& layer) {
          const int64_t window = int64_t{layer.config.kernel} * layer.config.kernel;
          return 2 * ChannelsOfGroup(layer) * window * layer.out.element_count();
        },
    .factor_values = [](const Layer& layer, int64_t samples) -> int64_t {
      const proto::LayerConfig& config = layer.config;
      const bool is_product =
          config.kernel == 1 && config.stride == 1 && config.padding == 0 && config.groups == 1;
      const int64_t rows = samples * layer.in.height * layer.in.width;
      return is_product ? LargestFactors(rows, layer.in.channels, layer.out.channels) : 0;
    },
    .traits = {.takes_relu = true},
};

}  // namespace ps::worker
