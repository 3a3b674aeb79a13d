#pragma once

#include <cstdint>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "worker/model/model.h"

namespace ps::worker {

/// The layers behind config.name, ending in `classes` logits, of a sample or of each token:
///   mlp        two hidden linear layers of 256 and 128, relu
///   cnn        two 3x3 convolutions with max pools, one hidden linear layer
///   resnet20, resnet32, resnet56, resnet110
///              He et al. 2015, section 4.2, with 1x1 convolutions where a block changes shape
///   resnet50   bottlenecks
///   vgg16, vgg19
///              with batch norm; pictures of at least 32x32
///   gpt, bert  blocks of attention and feed-forward, causal or not
/// Errors: kInvalidArgument with the known names.
Result<std::vector<proto::LayerConfig>> ZooLayers(
    const proto::ModelConfig& config, const Shape& input, int64_t classes);

}  // namespace ps::worker
