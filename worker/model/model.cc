#include "worker/model/model.h"

#include <cmath>
#include <utility>

#include "worker/model/zoo.h"

namespace ps::worker {
namespace {

using proto::LayerConfig;
using proto::LayerKind;

// Limits that keep every product of dimensions far from overflow, and a typing error in a config
// from asking for terabytes.
constexpr int64_t kWidthMax = int64_t{1} << 20;     // channels, features, height, width
constexpr int64_t kElementsMax = int64_t{1} << 30;  // of a tensor, of one sample's activation
constexpr int32_t kWindowMax = 1024;                // kernel, stride, padding
constexpr size_t kLayersMax = 10000;

Status Misfit(std::string message) {
  return Status::InvalidArgument(std::move(message));
}

Status CheckShape(const Shape& shape) {
  for (const int64_t d : {shape.channels, shape.height, shape.width}) {
    if (d < 1 || d > kWidthMax) {
      return Misfit(
          "size " + shape.ToString() + " is outside of 1 to " + std::to_string(kWidthMax) +
          " in one of its dimensions");
    }
  }
  if (shape.channels * shape.height > kElementsMax / shape.width) {
    return Misfit(
        "size " + shape.ToString() + " has more than " + std::to_string(kElementsMax) +
        " elements");
  }
  return Status::Ok();
}

Status CheckRange(const char* field, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    return Misfit(
        std::string(field) + " is " + std::to_string(value) + "; allowed is " +
        std::to_string(low) + " to " + std::to_string(high));
  }
  return Status::Ok();
}

Status CheckCount(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) {
    return Misfit(
        std::string(field) + " is " + std::to_string(value) + "; allowed is " +
        std::to_string(low) + " to " + std::to_string(high));
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

/// Output of a square window over `layer.in`; keeps the channels.
Status ApplyWindow(const LayerConfig& config, Layer* layer) {
  PS_TRY(CheckCount("kernel", config.kernel, 1, kWindowMax));
  PS_TRY(CheckCount("stride", config.stride, 1, kWindowMax));
  PS_TRY(CheckCount("padding", config.padding, 0, kWindowMax));
  const int64_t height = layer->in.height + 2 * int64_t{config.padding} - config.kernel;
  const int64_t width = layer->in.width + 2 * int64_t{config.padding} - config.kernel;
  if (height < 0 || width < 0) {
    return Misfit(
        "kernel " + std::to_string(config.kernel) + " does not fit input " + layer->in.ToString() +
        " with padding " + std::to_string(config.padding));
  }
  layer->out.height = height / config.stride + 1;
  layer->out.width = width / config.stride + 1;
  return Status::Ok();
}

// One function a kind: completes layer->config and layer->out, and appends the tensors.

Status ResolveLinear(Layer* layer, std::vector<TensorSpec>* tensors) {
  const LayerConfig& config = layer->config;
  PS_TRY(CheckCount("out", config.out, 1, kWidthMax));
  if (!layer->in.is_flat()) {
    return Misfit(
        "input " + layer->in.ToString() +
        " is not flat; put flatten or global_avg_pool in front of it");
  }
  layer->out = {config.out, 1, 1};
  if (layer->in.channels > kElementsMax / config.out) {
    return Misfit(
        "a weight of " + std::to_string(config.out) + "x" + layer->in.ToString() +
        " has more than " + std::to_string(kElementsMax) + " elements");
  }
  tensors->push_back(Weight({config.out, layer->in.channels}));
  if (config.bias) {
    tensors->push_back(Constant("bias", config.out, 0));
  }
  return Status::Ok();
}

Status ResolveConv2d(Layer* layer, std::vector<TensorSpec>* tensors) {
  LayerConfig& config = layer->config;
  config.stride = config.stride == 0 ? 1 : config.stride;
  PS_TRY(CheckCount("out", config.out, 1, kWidthMax));
  PS_TRY(ApplyWindow(config, layer));
  layer->out.channels = config.out;
  const int64_t window = int64_t{config.kernel} * config.kernel;
  if (layer->in.channels * window > kElementsMax / config.out) {
    return Misfit("its weight has more than " + std::to_string(kElementsMax) + " elements");
  }
  tensors->push_back(Weight({config.out, layer->in.channels, config.kernel, config.kernel}));
  if (config.bias) {
    tensors->push_back(Constant("bias", config.out, 0));
  }
  return Status::Ok();
}

Status ResolveBatchNorm(Layer* layer, std::vector<TensorSpec>* tensors) {
  const LayerConfig& config = layer->config;
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
  config.stride = config.stride == 0 ? config.kernel : config.stride;
  PS_TRY(ApplyWindow(config, layer));
  if (2 * config.padding > config.kernel) {
    return Misfit(
        "padding " + std::to_string(config.padding) + " is more than half of kernel " +
        std::to_string(config.kernel) + ", so a window could hold nothing but padding");
  }
  return Status::Ok();
}

Status ResolveLeaf(Layer* layer, std::vector<TensorSpec>* tensors) {
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
    case LayerKind::kDropout:
      return CheckRange("rate", layer->config.rate, 0, 0.99);
    case LayerKind::kRelu:
    case LayerKind::kGelu:
    case LayerKind::kResidual:
      return Status::Ok();
    case LayerKind::kSoftmaxCrossEntropy:
      return Misfit("the loss can stand only at the end of model.layers; take it out here");
  }
  return Misfit("unknown kind");
}

/// Walks the layers of one model and collects its tensors.
class Builder {
 public:
  /// Names of the layers start with the prefix. `path` is what the config calls the list.
  Result<std::vector<Layer>> Sequence(
      const std::vector<LayerConfig>& configs,
      const Shape& input,
      const std::string& name_prefix,
      const std::string& path) {
    std::vector<Layer> layers;
    Shape shape = input;
    for (size_t i = 0; i < configs.size(); ++i) {
      const std::string kind(LayerKindName(configs[i].kind));
      std::string name = name_prefix;
      name.append(std::to_string(i)).append(".").append(kind).append(".");
      const std::string own_path = path + "[" + std::to_string(i) + "]";
      const std::string where = own_path + " (" + kind + ")";
      Layer layer;
      layer.kind = configs[i].kind;
      layer.config = configs[i];
      layer.config.layers.clear();
      layer.config.shortcut.clear();
      layer.in = shape;
      layer.out = shape;
      if (layer.kind == LayerKind::kResidual) {
        PS_TRY(Residual(configs[i], name, own_path, &layer));
      } else {
        PS_TRY(Leaf(name, &layer).Annotate(where));
      }
      shape = layer.out;
      layers.push_back(std::move(layer));
    }
    return layers;
  }

  std::vector<TensorSpec> TakeTensors() { return std::move(tensors_); }

 private:
  Status Leaf(const std::string& name, Layer* layer) {
    if (++layer_count_ > kLayersMax) {
      return Misfit("more than " + std::to_string(kLayersMax) + " layers");
    }
    std::vector<TensorSpec> own;
    PS_TRY(ResolveLeaf(layer, &own));
    PS_TRY(CheckShape(layer->out).Annotate("output"));
    layer->first_tensor = static_cast<uint32_t>(tensors_.size());
    layer->tensor_count = static_cast<uint32_t>(own.size());
    for (TensorSpec& spec : own) {
      spec.name = name + spec.name;
      tensors_.push_back(std::move(spec));
    }
    return Status::Ok();
  }

  Status Residual(
      const LayerConfig& config, const std::string& name, const std::string& path, Layer* layer) {
    const std::string where = path + " (residual)";
    if (config.layers.empty()) {
      return Misfit(where + ": it has no layers");
    }
    layer->first_tensor = static_cast<uint32_t>(tensors_.size());
    PS_ASSIGN(layer->body, Sequence(config.layers, layer->in, name + "body.", path + ".layers"));
    PS_ASSIGN(
        layer->shortcut,
        Sequence(config.shortcut, layer->in, name + "shortcut.", path + ".shortcut"));
    layer->out = layer->body.back().out;
    const Shape side = layer->shortcut.empty() ? layer->in : layer->shortcut.back().out;
    if (side != layer->out) {
      return Misfit(
          where + ": its body ends in " + layer->out.ToString() + ", its " +
          (layer->shortcut.empty() ? "input is " : "shortcut ends in ") + side.ToString() +
          "; they are added and must be equal");
    }
    return Status::Ok();
  }

  std::vector<TensorSpec> tensors_;
  size_t layer_count_ = 0;
};

}  // namespace

std::string Shape::ToString() const {
  if (is_flat()) {
    return std::to_string(channels);
  }
  return std::to_string(channels) + "x" + std::to_string(height) + "x" + std::to_string(width);
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const TensorSpec& tensor : tensors) {
    count += tensor.element_count();
  }
  return count;
}

Result<Model> MakeModel(const proto::ModelConfig& config, const Shape& input, int64_t classes) {
  PS_TRY(CheckShape(input).Annotate("model input"));
  PS_TRY(CheckCount("the number of classes", classes, 2, kWidthMax));
  std::vector<LayerConfig> configs = config.layers;
  std::string path = "model.layers";
  if (configs.empty()) {
    path = "model.name " + config.name + ": layers";
    PS_ASSIGN(configs, ZooLayers(config.name, classes));
  } else if (configs.size() > 1 && configs.back().kind == LayerKind::kSoftmaxCrossEntropy) {
    configs.pop_back();  // every model is trained for it, so nothing is left to make of it
  }
  Model model;
  model.input = input;
  model.classes = classes;
  Builder builder;
  PS_ASSIGN(model.layers, builder.Sequence(configs, input, "", path));
  model.tensors = builder.TakeTensors();
  const Shape& out = model.layers.back().out;
  if (out != Shape{classes, 1, 1}) {
    return Misfit(
        path + "[" + std::to_string(model.layers.size() - 1) + "] (" +
        std::string(LayerKindName(model.layers.back().kind)) + "): the model ends in " +
        out.ToString() + ", the data has " + std::to_string(classes) +
        " classes; end with a linear layer with out " + std::to_string(classes));
  }
  if (model.tensors.empty()) {
    return Misfit(path + " have no parameters; there is nothing to train");
  }
  return model;
}

std::string_view LayerKindName(LayerKind kind) {
  switch (kind) {
    case LayerKind::kLinear:
      return "linear";
    case LayerKind::kConv2d:
      return "conv2d";
    case LayerKind::kBatchNorm:
      return "batch_norm";
    case LayerKind::kMaxPool:
      return "max_pool";
    case LayerKind::kAvgPool:
      return "avg_pool";
    case LayerKind::kGlobalAvgPool:
      return "global_avg_pool";
    case LayerKind::kRelu:
      return "relu";
    case LayerKind::kGelu:
      return "gelu";
    case LayerKind::kDropout:
      return "dropout";
    case LayerKind::kFlatten:
      return "flatten";
    case LayerKind::kResidual:
      return "residual";
    case LayerKind::kSoftmaxCrossEntropy:
      return "softmax_cross_entropy";
  }
  return "unknown";
}

}  // namespace ps::worker
