#pragma once

#include <fmt/core.h>

#include "worker/model/layer_shapes.h"

namespace ps::worker {

/// Its products are linear layers; what has its kind in a model is what comes between them.
inline Result<std::vector<LayerPart>> AttentionParts(
    const proto::LayerConfig& config, const Shape& in) {
  PS_TRY(CheckSequence(in));
  PS_TRY(CheckCount("heads", config.heads, 1, kWidthMax));
  if (in.channels % config.heads != 0) {
    return Misfit(fmt::format(
        "heads {} do not divide the {} features of a token", config.heads, in.channels));
  }
  PS_TRY(CheckCount("three times the features of a token", 3 * in.channels, 1, kWidthMax));
  return std::vector<LayerPart>{
      LinearPart("qkv.", 3 * in.channels),
      {.name = "", .config = config},
      LinearPart("out.", in.channels)};
}

inline constexpr LayerRule kAttentionLayer = {
    .resolve =
        [](Layer* layer, std::vector<TensorSpec>* /*tensors*/) {
          layer->out.channels = layer->in.channels / 3;
          return Status::Ok();
        },
    .parts = AttentionParts,
    .op = [](const Layer& layer, const LayerOpOptions& options, uint64_t) -> kernels::OpSpec {
      return kernels::AttentionOptions{
          .length = layer.in.height,
          .width = layer.out.channels,
          .heads = layer.config.heads,
          .causal = layer.config.causal,
          .precision = options.precision};
    },
    // Scores and their product with the values; of a causal one, half of each.
    .flops =
        [](const Layer& layer) {
          constexpr int64_t kSoftmaxFlops = 5;
          const int64_t length = layer.in.height;
          const int64_t pairs = length * (layer.config.causal ? length + 1 : 2 * length) / 2;
          return pairs * (4 * layer.out.channels + kSoftmaxFlops * layer.config.heads);
        },
    .traits = {.keeps_output = true},
};

}  // namespace ps::worker
