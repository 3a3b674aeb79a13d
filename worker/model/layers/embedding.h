#pragma once

#include <fmt/core.h>

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline Status ResolveEmbedding(Layer* layer, std::vector<TensorSpec>* tensors) {
  const Shape& in = layer->in;
  PS_TRY(CheckCount("out", layer->config.out, 1, kWidthMax));
  if (in.kind != ShapeKind::kTokens) {
    return Misfit(
        "input " + in.ToString() +
        " is no tokens; embedding is the first layer of a model whose data are text or tokens");
  }
  layer->out = {layer->config.out, in.height, 1, ShapeKind::kSequence};
  for (const auto& [what, count] : {std::pair("weight", in.vocabulary), {"position", in.height}}) {
    if (count > kElementsMax / layer->config.out) {
      return Misfit(fmt::format("its table has more than {} elements", kElementsMax));
    }
    TensorSpec table = Weight({count, layer->config.out});
    table.name = what;
    table.init_scale = kSequenceInit;
    table.has_weight_decay = false;
    tensors->push_back(std::move(table));
  }
  return Status::Ok();
}

inline constexpr LayerRule kEmbeddingLayer = {
    .resolve = ResolveEmbedding,
    .op = [](const Layer& layer, const LayerOpOptions& /*options*/, uint64_t) -> kernels::OpSpec {
      return kernels::EmbeddingOptions{
          .vocabulary = layer.in.vocabulary,
          .length = layer.in.height,
          .width = layer.out.channels};
    },
};

}  // namespace ps::worker
