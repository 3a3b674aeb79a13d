#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/job_config.h"
#include "worker/model/model.h"

// What each kind of layer makes of its input. Private to the model.

namespace ps::worker {

/// Widths that a config may ask for: channels, features, height.
inline constexpr int64_t kWidthMax = int64_t{1} << 20;

/// kInvalidArgument: a layer, or the whole, that does not fit.
inline Status Misfit(std::string message) {
  return Status::InvalidArgument(std::move(message));
}

Status CheckShape(const Shape& shape);
Status CheckCount(const char* field, int64_t value, int64_t low, int64_t high);

/// A layer that one of the config stands for, and what stands before its tensors' names.
struct LayerPart {
  std::string name;
  proto::LayerConfig config;
};

/// attention and feed_forward stand for three layers each, of which the middle one of attention has
/// its kind and no tensors; any other layer for itself.
Result<std::vector<LayerPart>> PartsOf(const proto::LayerConfig& config, const Shape& in);

/// Completes layer->config and layer->out, and appends the tensors. Requires: one of PartsOf, not
/// residual; kind, config and in are set, and out is in.
Status ResolveLayer(Layer* layer, std::vector<TensorSpec>* tensors);

}  // namespace ps::worker
