#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

/// What it computes are the layers in it, and their sum: worker/model/sequence.h.
inline constexpr LayerRule kResidualLayer = {};

}  // namespace ps::worker
