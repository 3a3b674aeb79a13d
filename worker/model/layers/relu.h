#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kReluLayer = {
    .op = [](const Layer& layer, const LayerOpOptions& /*options*/, uint64_t) -> kernels::OpSpec {
      return kernels::ReluOptions{.elements = layer.in.element_count()};
    },
    .traits = {.runs_in_place = true, .keeps_output = true},
};

}  // namespace ps::worker
