#include "worker/model/layer_shapes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "worker/model/layers_generated.h"

namespace ps::worker {

const LayerRule& LayerRuleOf(proto::LayerKind kind) {
  return *kLayerRules[static_cast<size_t>(kind)];
}

Status RefuseInnerLoss(Layer* /*layer*/, std::vector<TensorSpec>* /*tensors*/) {
  return Misfit("the loss can stand only at the end of model.layers; take it out here");
}

Status CheckShape(const Shape& shape) {
  for (const int64_t d : {shape.channels, shape.height, shape.width}) {
    if (d < 1 || d > kWidthMax) {
      return Misfit(fmt::format(
          "size {} is outside of 1 to {} in one of its dimensions", shape.ToString(), kWidthMax));
    }
  }
  if (shape.channels * shape.height > kElementsMax / shape.width) {
    return Misfit(fmt::format("size {} has more than {} elements", shape.ToString(), kElementsMax));
  }
  return Status::Ok();
}

Status CheckCount(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    return Misfit(fmt::format("{} is {}; allowed is {} to {}", field, value, low, high));
  }
  return Status::Ok();
}

Status CheckRange(const char* field, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    return Misfit(fmt::format("{} is {}; allowed is {} to {}", field, value, low, high));
  }
  return Status::Ok();
}

int64_t LargestFactors(int64_t rows, int64_t in, int64_t out) {
  constexpr int64_t kRow = 8;  // values of bf16 in 16 bytes
  const int64_t in_row = (in + kRow - 1) / kRow * kRow;
  const int64_t out_row = (out + kRow - 1) / kRow * kRow;
  const int64_t weights = out * in_row;
  return std::max({rows * in_row + weights, rows * out_row + weights, rows * (in_row + out_row)});
}

Status CheckImage(const Shape& in) {
  return in.kind == ShapeKind::kImage ? Status::Ok()
                                      : Misfit(
                                            "input " + in.ToString() +
                                            " is no image; for sequences there are linear, "
                                            "layer_norm, attention and feed_forward");
}

Status CheckSequence(const Shape& in) {
  return in.kind == ShapeKind::kSequence ? Status::Ok()
                                         : Misfit(
                                               "input " + in.ToString() +
                                               " is no sequence; the data need to be tokens, and "
                                               "the model to begin with embedding");
}

Status ApplyWindow(Layer* layer) {
  constexpr int32_t kWindowMax = 1024;  // kernel, stride, padding
  const proto::LayerConfig& config = layer->config;
  PS_TRY(CheckCount("kernel", config.kernel, 1, kWindowMax));
  PS_TRY(CheckCount("stride", config.stride, 1, kWindowMax));
  PS_TRY(CheckCount("padding", config.padding, 0, kWindowMax));
  const int64_t height = layer->in.height + 2 * int64_t{config.padding} - config.kernel;
  const int64_t width = layer->in.width + 2 * int64_t{config.padding} - config.kernel;
  if (height < 0 || width < 0) {
    return Misfit(fmt::format(
        "kernel {} does not fit input {} with padding {}",
        config.kernel,
        layer->in.ToString(),
        config.padding));
  }
  layer->out.height = height / config.stride + 1;
  layer->out.width = width / config.stride + 1;
  return Status::Ok();
}

TensorSpec Constant(const char* what, int64_t size, float value) {
  TensorSpec spec;
  spec.name = what;
  spec.shape = {size};
  spec.init = InitKind::kConstant;
  spec.init_scale = value;
  return spec;
}

TensorSpec Average(const char* what, int64_t size, float value, float rate) {
  TensorSpec spec = Constant(what, size, value);
  spec.rule = UpdateRule::kAverage;
  spec.average_rate = rate;
  return spec;
}

TensorSpec Weight(std::vector<int64_t> shape) {
  TensorSpec spec;
  spec.name = "weight";
  spec.shape = std::move(shape);
  const int64_t fan_in = spec.element_count() / spec.shape[0];
  spec.init = InitKind::kNormal;
  spec.init_scale = static_cast<float>(std::sqrt(2.0 / static_cast<double>(fan_in)));
  spec.has_weight_decay = true;
  return spec;
}

LayerPart LinearPart(const char* name, int64_t out) {
  LayerPart part{.name = name, .config = {}};
  part.config.out = static_cast<int32_t>(out);
  return part;
}

void AppendScaleAndShift(int64_t channels, std::vector<TensorSpec>* tensors) {
  tensors->push_back(Constant("gamma", channels, 1));
  tensors->push_back(Constant("beta", channels, 0));
}

}  // namespace ps::worker
