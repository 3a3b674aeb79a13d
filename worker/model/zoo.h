#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job_config.h"

namespace ps::worker {

/// The layers behind a name, ending in `classes` logits:
///   mlp       two hidden linear layers of 256 and 128, relu
///   cnn       two 3x3 convolutions with max pools, one hidden linear layer
///   resnet20  He et al. 2015, section 4.2, with 1x1 convolutions where a block changes shape
/// Errors: kInvalidArgument with the known names.
Result<std::vector<proto::LayerConfig>> ZooLayers(std::string_view name, int64_t classes);

}  // namespace ps::worker
