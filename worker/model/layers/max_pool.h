#pragma once

#include "worker/model/layers/pool_parts.h"

namespace ps::worker {

/// The winners: a byte each, unless that does not tell the places of a window apart.
inline int64_t MaxPoolKeptFloats(const Layer& layer) {
  constexpr int64_t kPlacesOfByte = 256;
  const int64_t winners = layer.out.element_count();
  const int64_t places = int64_t{layer.config.kernel} * layer.config.kernel;
  return places <= kPlacesOfByte ? (winners + 3) / 4 : winners;
}

inline constexpr LayerRule kMaxPoolLayer = {
    .resolve = ResolvePool,
    .op = PoolOp<kernels::PoolKind::kMax>,
    .flops = PoolFlops,
    .kept_floats = MaxPoolKeptFloats,
};

}  // namespace ps::worker
