#pragma once

#include <cstdint>

#include "kernels/op_spec.h"
#include "worker/model/model.h"

namespace ps::worker {

/// What the ops of a network have in common.
struct LayerOpOptions {
  uint64_t seed = 0;
  bool input_gradient = false;                              // Backward is asked for dx
  kernels::Precision precision = kernels::Precision::kF32;  // of ops that multiply
};

/// The op that computes a layer. `index` tells apart the dropouts of a network. Requires: a layer
/// that is not residual.
kernels::OpSpec SpecOf(const Layer& layer, const LayerOpOptions& options, uint64_t index);

}  // namespace ps::worker
