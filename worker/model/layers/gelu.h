#pragma once

#include "worker/model/layer_shapes.h"

namespace ps::worker {

inline constexpr LayerRule kGeluLayer = {
    .op = [](const Layer& layer, const LayerOpOptions& /*options*/, uint64_t) -> kernels::OpSpec {
      return kernels::GeluOptions{.elements = layer.in.element_count()};
    },
    .flops = [](const Layer& layer) { return 10 * layer.out.element_count(); },
};

}  // namespace ps::worker
