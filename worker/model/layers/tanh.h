#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kTanhLayer = {
    .op = [](const Layer& layer, const LayerOpOptions& /*options*/, uint64_t) -> kernels::OpSpec {
      return kernels::TanhOptions{.elements = layer.in.element_count()};
    },
    .flops = [](const Layer& layer) { return 10 * layer.out.element_count(); },
    .traits = {.runs_in_place = true, .keeps_output = true},
};

}  // namespace ps::worker
