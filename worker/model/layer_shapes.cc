#include "worker/model/layer_shapes.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>

namespace ps::worker {
namespace {

using proto::LayerConfig;
using proto::LayerKind;

// Limits that keep every product of dimensions far from overflow, and a typing error in a config
// from asking for terabytes.
constexpr int64_t kElementsMax = int64_t{1} << 30;  // of a tensor, of one sample's activation
/// Standard deviation of what is drawn for sequences, as of GPT-2.
constexpr float kSequenceInit = 0.02F;
constexpr int32_t kWindowMax = 1024;  // kernel, stride, padding

Status CheckRange(const char* field, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    return Misfit(fmt::format("{} is {}; allowed is {} to {}", field, value, low, high));
  }
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

/// Output of a square window over `layer.in`; keeps the channels.
Status ApplyWindow(const LayerConfig& config, Layer* layer) {
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

// One function a kind: completes layer->config and layer->out, and appends the tensors.

Status ResolveLinear(Layer* layer, std::vector<TensorSpec>* tensors) {
  const LayerConfig& config = layer->config;
  PS_TRY(CheckCount("out", config.out, 1, kWidthMax));
  const bool is_sequence = layer->in.kind == ShapeKind::kSequence;
  if (!layer->in.is_flat() && !is_sequence) {
    return Misfit(
        "input " + layer->in.ToString() +
        " is not flat; put flatten or global_avg_pool in front of it");
  }
  layer->out.channels = config.out;
  if (layer->in.channels > kElementsMax / config.out) {
    return Misfit(fmt::format(
        "a weight of {}x{} has more than {} elements",
        config.out,
        layer->in.ToString(),
        kElementsMax));
  }
  tensors->push_back(Weight({config.out, layer->in.channels}));
  if (is_sequence) {
    tensors->back().init_scale = kSequenceInit;
  }
  if (config.bias) {
    tensors->push_back(Constant("bias", config.out, 0));
  }
  return Status::Ok();
}

Status ResolveConv2d(Layer* layer, std::vector<TensorSpec>* tensors) {
  LayerConfig& config = layer->config;
  PS_TRY(CheckImage(layer->in));
  config.stride = config.stride == 0 ? 1 : config.stride;
  PS_TRY(CheckCount("out", config.out, 1, kWidthMax));
  PS_TRY(ApplyWindow(config, layer));
  layer->out.channels = config.out;
  const int64_t window = int64_t{config.kernel} * config.kernel;
  if (layer->in.channels * window > kElementsMax / config.out) {
    return Misfit(fmt::format("its weight has more than {} elements", kElementsMax));
  }
  tensors->push_back(Weight({config.out, layer->in.channels, config.kernel, config.kernel}));
  if (config.bias) {
    tensors->push_back(Constant("bias", config.out, 0));
  }
  return Status::Ok();
}

Status ResolveBatchNorm(Layer* layer, std::vector<TensorSpec>* tensors) {
  const LayerConfig& config = layer->config;
  PS_TRY(CheckImage(layer->in));
  PS_TRY(CheckRange("momentum", config.momentum, 1e-6, 1));
  PS_TRY(CheckRange("epsilon", config.epsilon, 1e-12, 1));
  const int64_t channels = layer->in.channels;
  tensors->push_back(Constant("gamma", channels, 1));
  tensors->push_back(Constant("beta", channels, 0));
  tensors->push_back(Average("running_mean", channels, 0, config.momentum));
  tensors->push_back(Average("running_variance", channels, 1, config.momentum));
  return Status::Ok();
}

Status ResolvePool(Layer* layer) {
  LayerConfig& config = layer->config;
  PS_TRY(CheckImage(layer->in));
  config.stride = config.stride == 0 ? config.kernel : config.stride;
  PS_TRY(ApplyWindow(config, layer));
  if (2 * config.padding > config.kernel) {
    return Misfit(fmt::format(
        "padding {} is more than half of kernel {}, so a window could hold nothing but "
        "padding",
        config.padding,
        config.kernel));
  }
  return Status::Ok();
}

Status ResolveEmbedding(Layer* layer, std::vector<TensorSpec>* tensors) {
  const Shape& in = layer->in;
  PS_TRY(CheckCount("out", layer->config.out, 1, kWidthMax));
  if (in.kind != ShapeKind::kTokens) {
    return Misfit(
        "input " + in.ToString() +
        " is no tokens; embedding is the first layer of a model whose data are text or tokens");
  }
  layer->out = {layer->config.out, in.height, 1, ShapeKind::kSequence};
  for (const auto& [what, count] : {std::pair("weight", in.vocabulary), {"position", in.height}}) {
    if (count > kElementsMax / layer->config.out) {
      return Misfit(fmt::format("its table has more than {} elements", kElementsMax));
    }
    TensorSpec table = Weight({count, layer->config.out});
    table.name = what;
    table.init_scale = kSequenceInit;
    table.has_weight_decay = false;
    tensors->push_back(std::move(table));
  }
  return Status::Ok();
}

Status ResolveLayerNorm(Layer* layer, std::vector<TensorSpec>* tensors) {
  if (!layer->in.is_flat()) {
    PS_TRY(CheckSequence(layer->in));
  }
  PS_TRY(CheckRange("epsilon", layer->config.epsilon, 1e-12, 1));
  tensors->push_back(Constant("gamma", layer->in.channels, 1));
  tensors->push_back(Constant("beta", layer->in.channels, 0));
  return Status::Ok();
}

using Parts = std::vector<LayerPart>;

LayerPart LinearPart(const char* name, int64_t out) {
  LayerPart part{.name = name, .config = {}};
  part.config.out = static_cast<int32_t>(out);
  return part;
}

Result<Parts> AttentionParts(const LayerConfig& config, const Shape& in) {
  PS_TRY(CheckSequence(in));
  PS_TRY(CheckCount("heads", config.heads, 1, kWidthMax));
  if (in.channels % config.heads != 0) {
    return Misfit(fmt::format(
        "heads {} do not divide the {} features of a token", config.heads, in.channels));
  }
  PS_TRY(CheckCount("three times the features of a token", 3 * in.channels, 1, kWidthMax));
  return Parts{
      LinearPart("qkv.", 3 * in.channels),
      {.name = "", .config = config},
      LinearPart("out.", in.channels)};
}

Result<Parts> FeedForwardParts(const LayerConfig& config, const Shape& in) {
  PS_TRY(CheckSequence(in));
  const int64_t hidden = config.hidden == 0 ? 4 * in.channels : config.hidden;
  PS_TRY(CheckCount("hidden", hidden, 1, kWidthMax));
  Parts parts = {LinearPart("in.", hidden), {}, LinearPart("out.", in.channels)};
  parts[1].config.kind = LayerKind::kGelu;
  return parts;
}

}  // namespace

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

Status ResolveLayer(Layer* layer, std::vector<TensorSpec>* tensors) {
  if (layer->in.kind == ShapeKind::kTokens && layer->kind != LayerKind::kEmbedding) {
    return Misfit(
        "input " + layer->in.ToString() + " are numbers of words; put embedding in front of it");
  }
  switch (layer->kind) {
    case LayerKind::kLinear:
      return ResolveLinear(layer, tensors);
    case LayerKind::kConv2d:
      return ResolveConv2d(layer, tensors);
    case LayerKind::kBatchNorm:
      return ResolveBatchNorm(layer, tensors);
    case LayerKind::kMaxPool:
    case LayerKind::kAvgPool:
      return ResolvePool(layer);
    case LayerKind::kGlobalAvgPool:
      layer->out = {layer->in.channels, 1, 1};
      return Status::Ok();
    case LayerKind::kFlatten:
      layer->out = {layer->in.element_count(), 1, 1};
      return Status::Ok();
    case LayerKind::kEmbedding:
      return ResolveEmbedding(layer, tensors);
    case LayerKind::kLayerNorm:
      return ResolveLayerNorm(layer, tensors);
    case LayerKind::kAttention:
      layer->out.channels = layer->in.channels / 3;
      return Status::Ok();
    case LayerKind::kDropout:
      return CheckRange("rate", layer->config.rate, 0, 0.99);
    case LayerKind::kRelu:
    case LayerKind::kGelu:
    case LayerKind::kResidual:
    case LayerKind::kFeedForward:
      return Status::Ok();
    case LayerKind::kSoftmaxCrossEntropy:
      return Misfit("the loss can stand only at the end of model.layers; take it out here");
  }
  return Misfit("unknown kind");
}

Result<std::vector<LayerPart>> PartsOf(const LayerConfig& config, const Shape& in) {
  if (config.kind == LayerKind::kAttention) {
    return AttentionParts(config, in);
  }
  return config.kind == LayerKind::kFeedForward ? FeedForwardParts(config, in)
                                                : Parts{{.name = "", .config = config}};
}

}  // namespace ps::worker
