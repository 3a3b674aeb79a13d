#include "worker/model/model.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "worker/model/layer_shapes.h"
#include "worker/model/zoo.h"

namespace ps::worker {
namespace {

using proto::LayerConfig;
using proto::LayerKind;

constexpr size_t kLayersMax = 10000;

/// What a layer of the config stands for.
Result<std::vector<LayerPart>> PartsOf(const LayerConfig& config, const Shape& in) {
  const auto parts = LayerRuleOf(config.kind).parts;
  return parts != nullptr ? parts(config, in)
                          : std::vector<LayerPart>{{.name = "", .config = config}};
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
      const std::string own_path = fmt::format("{}[{}]", path, i);
      const std::string where = own_path + " (" + kind + ")";
      Result<std::vector<LayerPart>> parts = PartsOf(configs[i], shape);
      PS_TRY(std::move(parts).status().Annotate(where));
      for (const LayerPart& part : parts.value()) {
        Layer layer;
        layer.name = name + part.name;
        layer.name.pop_back();
        layer.kind = part.config.kind;
        layer.config = part.config;
        layer.config.layers.clear();
        layer.config.shortcut.clear();
        layer.in = shape;
        layer.out = shape;
        if (layer.kind == LayerKind::kResidual) {
          PS_TRY(Residual(configs[i], name, own_path, &layer));
        } else {
          PS_TRY(Leaf(name + part.name, &layer).Annotate(where));
        }
        shape = layer.out;
        layers.push_back(std::move(layer));
      }
    }
    return layers;
  }

  std::vector<TensorSpec> TakeTensors() { return std::move(tensors_); }

 private:
  Status Leaf(const std::string& name, Layer* layer) {
    if (layer->in.kind == ShapeKind::kTokens && layer->kind != LayerKind::kEmbedding) {
      return Misfit(
          "input " + layer->in.ToString() + " are numbers of words; put embedding in front of it");
    }
    if (++layer_count_ > kLayersMax) {
      return Misfit(fmt::format("more than {} layers", kLayersMax));
    }
    std::vector<TensorSpec> own;
    const LayerRule& rule = LayerRuleOf(layer->kind);
    if (rule.resolve != nullptr) {
      PS_TRY(rule.resolve(layer, &own));
    }
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

/// The rule of the loss that stands at the end of the config's layers, which is taken out there.
Result<kernels::LossRule> TakeLoss(
    std::vector<LayerConfig>* configs, int64_t classes, const std::string& path) {
  kernels::LossRule rule;
  if (configs->size() < 2 || !LayerRuleOf(configs->back().kind).loss) {
    return rule;
  }
  const LayerConfig loss = configs->back();
  const std::string at =
      fmt::format("{}[{}] ({})", path, configs->size() - 1, LayerKindName(loss.kind));
  configs->pop_back();
  rule.kind = *LayerRuleOf(loss.kind).loss;
  rule.delta = loss.delta;
  rule.smoothing = loss.label_smoothing;
  rule.class_weights = loss.class_weights;
  if (!rule.class_weights.empty() && static_cast<int64_t>(rule.class_weights.size()) != classes) {
    return Misfit(fmt::format(
        "{}: class_weights has {} weights, and the data has {} classes; give one for each, in the "
        "order of the classes",
        at,
        rule.class_weights.size(),
        classes));
  }
  return rule;
}

/// The loss is of numbers.
Status CheckTargets(const Model& model, const std::string& path) {
  const Shape& out = model.layers.back().out;
  const std::string targets = std::to_string(model.classes);
  return out == Shape{model.classes, 1, 1}
             ? Status::Ok()
             : Misfit(
                   path + " (" + std::string(LayerKindName(model.layers.back().kind)) +
                   "): the model ends in " + out.ToString() + ", and the data has " + targets +
                   (model.classes == 1 ? " number" : " numbers") +
                   " a sample to learn; end with a linear layer with out " + targets +
                   " in front of the loss" +
                   (out.kind == ShapeKind::kSequence ? ", behind global_avg_pool" : ""));
}

Status CheckEnd(const Model& model, const std::string& path) {
  if (!HasClasses(model.loss.kind)) {
    return CheckTargets(model, path);
  }
  const Shape& out = model.layers.back().out;
  const Shape expected = model.labels == 1
                             ? Shape{model.classes, 1, 1}
                             : Shape{model.classes, model.labels, 1, ShapeKind::kSequence};
  if (out == expected) {
    return Status::Ok();
  }
  const std::string classes = std::to_string(model.classes);
  const std::string needed =
      model.labels == 1
          ? "the data has " + classes + " classes"
          : fmt::format(
                "the data has one of {} classes for each of {} tokens", classes, model.labels);
  return Misfit(
      path + " (" + std::string(LayerKindName(model.layers.back().kind)) + "): the model ends in " +
      out.ToString() + ", " + needed + "; end with a linear layer with out " + classes +
      (out.kind == ShapeKind::kSequence && model.labels == 1 ? " behind global_avg_pool" : ""));
}

/// Residual layers have no tensors of their own.
void MarkFrozen(const std::vector<proto::TensorTreatment>& treatments, std::vector<Layer>* layers) {
  for (Layer& layer : *layers) {
    const auto own = std::span(treatments).subspan(layer.first_tensor, layer.tensor_count);
    layer.is_frozen = !own.empty() && std::ranges::all_of(own, &proto::TensorTreatment::is_frozen);
    MarkFrozen(treatments, &layer.body);
    MarkFrozen(treatments, &layer.shortcut);
  }
}

}  // namespace

std::string Shape::ToString() const {
  if (kind != ShapeKind::kImage) {
    return std::to_string(height) + (kind == ShapeKind::kTokens
                                         ? fmt::format(" tokens below {}", vocabulary)
                                         : fmt::format(" tokens of {}", channels));
  }
  if (is_flat()) {
    return std::to_string(channels);
  }
  return fmt::format("{}x{}x{}", channels, height, width);
}

int64_t Model::trained_count() const {
  int64_t count = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    count += TreatmentOf(i).is_frozen ? 0 : tensors[i].element_count();
  }
  return count;
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const TensorSpec& tensor : tensors) {
    count += tensor.element_count();
  }
  return count;
}

Result<Model> MakeModel(
    const proto::ModelConfig& config, const Shape& input, int64_t classes, int64_t labels) {
  PS_TRY(CheckShape(input).Annotate("model input"));
  std::vector<LayerConfig> configs = config.layers;
  std::string path = "model.layers";
  Model model;
  model.input = input;
  PS_ASSIGN(model.loss, TakeLoss(&configs, classes, path));
  if (HasClasses(model.loss.kind)) {
    PS_TRY(CheckCount("the number of classes", classes, 2, kWidthMax));
  } else {
    PS_TRY(CheckCount("the number of targets", classes, 1, kWidthMax));
    PS_TRY(CheckCount("the number of labels of a sample", labels, classes, classes));
  }
  if (configs.empty()) {
    path = "model.name " + config.name + ": layers";
    PS_ASSIGN(configs, ZooLayers(config, input, classes));
  }
  model.classes = classes;
  model.labels = labels;
  Builder builder;
  PS_ASSIGN(model.layers, builder.Sequence(configs, input, "", path));
  model.tensors = builder.TakeTensors();
  PS_TRY(CheckEnd(model, fmt::format("{}[{}]", path, configs.size() - 1)));
  if (model.tensors.empty()) {
    return Misfit(path + " have no parameters; there is nothing to train");
  }
  return model;
}

std::string_view LayerKindName(LayerKind kind) {
  return config::kLayerKindNames[static_cast<size_t>(kind)];
}

Status TreatTensors(const proto::JobConfig& config, Model* model) {
  if (config.parameters.empty()) {
    return Status::Ok();
  }
  PS_TRY(proto::CheckGroups(config.parameters, model->tensors));
  for (const TensorSpec& tensor : model->tensors) {
    model->treatments.push_back(proto::TreatmentOf(config.parameters, tensor));
  }
  MarkFrozen(model->treatments, &model->layers);
  return Status::Ok();
}

}  // namespace ps::worker
