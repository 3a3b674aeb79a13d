#include "worker/model/zoo.h"

#include <fmt/core.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace ps::worker {
namespace {

using proto::LayerConfig;
using proto::LayerKind;
using Layers = std::vector<LayerConfig>;

LayerConfig Simple(LayerKind kind) {
  LayerConfig layer;
  layer.kind = kind;
  return layer;
}

LayerConfig Linear(int32_t out) {
  LayerConfig layer = Simple(LayerKind::kLinear);
  layer.out = out;
  return layer;
}

LayerConfig Conv(int32_t out, int32_t kernel, int32_t stride) {
  LayerConfig layer = Simple(LayerKind::kConv2d);
  layer.out = out;
  layer.kernel = kernel;
  layer.stride = stride;
  layer.padding = kernel / 2;
  return layer;
}

LayerConfig MaxPool(int32_t kernel) {
  LayerConfig layer = Simple(LayerKind::kMaxPool);
  layer.kernel = kernel;
  layer.stride = kernel;
  return layer;
}

Layers Mlp(int32_t classes) {
  return {
      Simple(LayerKind::kFlatten),
      Linear(256),
      Simple(LayerKind::kRelu),
      Linear(128),
      Simple(LayerKind::kRelu),
      Linear(classes)};
}

Layers Cnn(int32_t classes) {
  return {
      Conv(32, 3, 1),
      Simple(LayerKind::kRelu),
      MaxPool(2),
      Conv(64, 3, 1),
      Simple(LayerKind::kRelu),
      MaxPool(2),
      Simple(LayerKind::kFlatten),
      Linear(64),
      Simple(LayerKind::kRelu),
      Linear(classes)};
}

/// Convolution without bias (the norm's beta takes its place) and batch norm.
void AppendConvNorm(int32_t out, int32_t kernel, int32_t stride, Layers* layers) {
  LayerConfig conv = Conv(out, kernel, stride);
  conv.bias = false;
  layers->push_back(std::move(conv));
  layers->push_back(Simple(LayerKind::kBatchNorm));
}

/// The residual networks for CIFAR: He et al. 2015, section 4.2; 6 * blocks + 2 layers.
Layers CifarResNet(int32_t blocks, int32_t classes) {
  Layers layers;
  AppendConvNorm(16, 3, 1, &layers);
  layers.push_back(Simple(LayerKind::kRelu));
  for (const int32_t width : {16, 32, 64}) {
    for (int32_t block = 0; block < blocks; ++block) {
      const int32_t stride = width != 16 && block == 0 ? 2 : 1;
      LayerConfig residual = Simple(LayerKind::kResidual);
      AppendConvNorm(width, 3, stride, &residual.layers);
      residual.layers.push_back(Simple(LayerKind::kRelu));
      AppendConvNorm(width, 3, 1, &residual.layers);
      if (stride != 1) {
        AppendConvNorm(width, 1, stride, &residual.shortcut);
      }
      layers.push_back(std::move(residual));
      layers.push_back(Simple(LayerKind::kRelu));
    }
  }
  layers.push_back(Simple(LayerKind::kGlobalAvgPool));
  layers.push_back(Linear(classes));
  return layers;
}

/// 1x1, 3x3, 1x1: the last one with four times the channels. The stride is that of the 3x3.
LayerConfig Bottleneck(int32_t width, int32_t stride, bool changes_shape) {
  LayerConfig residual = Simple(LayerKind::kResidual);
  AppendConvNorm(width, 1, 1, &residual.layers);
  residual.layers.push_back(Simple(LayerKind::kRelu));
  AppendConvNorm(width, 3, stride, &residual.layers);
  residual.layers.push_back(Simple(LayerKind::kRelu));
  AppendConvNorm(4 * width, 1, 1, &residual.layers);
  if (changes_shape) {
    AppendConvNorm(4 * width, 1, stride, &residual.shortcut);
  }
  return residual;
}

/// He et al. 2015, table 1. Small pictures keep their size at the beginning.
Layers ResNet50(const Shape& input, int32_t classes) {
  constexpr int64_t kSmall = 64;
  Layers layers;
  if (input.height > kSmall) {
    AppendConvNorm(64, 7, 2, &layers);
    layers.push_back(Simple(LayerKind::kRelu));
    LayerConfig pool = MaxPool(3);
    pool.stride = 2;
    pool.padding = 1;
    layers.push_back(std::move(pool));
  } else {
    AppendConvNorm(64, 3, 1, &layers);
    layers.push_back(Simple(LayerKind::kRelu));
  }
  int32_t width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      const int32_t stride = width != 64 && block == 0 ? 2 : 1;
      layers.push_back(Bottleneck(width, stride, block == 0));
      layers.push_back(Simple(LayerKind::kRelu));
    }
    width *= 2;
  }
  layers.push_back(Simple(LayerKind::kGlobalAvgPool));
  layers.push_back(Linear(classes));
  return layers;
}

/// Simonyan and Zisserman 2014, with batch norm, and one linear layer as usual for CIFAR. `last` is
/// how many convolutions the last three stages have.
Layers Vgg(int last, int32_t classes) {
  Layers layers;
  const auto stage = [&](int convolutions, int32_t width) {
    for (int i = 0; i < convolutions; ++i) {
      AppendConvNorm(width, 3, 1, &layers);
      layers.push_back(Simple(LayerKind::kRelu));
    }
    layers.push_back(MaxPool(2));
  };
  stage(2, 64);
  stage(2, 128);
  stage(last, 256);
  stage(last, 512);
  stage(last, 512);
  layers.push_back(Simple(LayerKind::kGlobalAvgPool));
  layers.push_back(Linear(classes));
  return layers;
}

/// A layer on normalised input, added to it.
LayerConfig PreNormResidual(LayerConfig layer, float dropout) {
  LayerConfig residual = Simple(LayerKind::kResidual);
  residual.layers = {Simple(LayerKind::kLayerNorm), std::move(layer)};
  if (dropout > 0) {
    residual.layers.push_back(Simple(LayerKind::kDropout));
    residual.layers.back().rate = dropout;
  }
  return residual;
}

/// Blocks as of GPT-2 (Radford et al. 2019); bert (Devlin et al. 2018) differs in that a token sees
/// those behind it too.
Layers Transformer(const proto::ModelConfig& config, bool causal, int32_t classes) {
  const auto pick = [](uint32_t value, uint32_t usual) {
    return static_cast<int32_t>(value == 0 ? usual : value);
  };
  Layers layers = {Simple(LayerKind::kEmbedding)};
  layers[0].out = pick(config.width, proto::kModelWidth);
  if (config.dropout > 0) {
    layers.push_back(Simple(LayerKind::kDropout));
    layers.back().rate = config.dropout;
  }
  LayerConfig attention = Simple(LayerKind::kAttention);
  attention.heads = pick(config.heads, proto::kModelHeads);
  attention.causal = causal;
  for (int32_t block = 0; block < pick(config.depth, proto::kModelDepth); ++block) {
    layers.push_back(PreNormResidual(attention, config.dropout));
    layers.push_back(PreNormResidual(Simple(LayerKind::kFeedForward), config.dropout));
  }
  layers.push_back(Simple(LayerKind::kLayerNorm));
  layers.push_back(Linear(classes));
  return layers;
}

}  // namespace

Result<Layers> ZooLayers(const proto::ModelConfig& config, const Shape& input, int64_t classes) {
  const auto out = static_cast<int32_t>(classes);
  const std::map<std::string_view, std::function<Layers()>> models = {
      {"mlp", [&] { return Mlp(out); }},
      {"cnn", [&] { return Cnn(out); }},
      {"resnet20", [&] { return CifarResNet(3, out); }},
      {"resnet32", [&] { return CifarResNet(5, out); }},
      {"resnet56", [&] { return CifarResNet(9, out); }},
      {"resnet110", [&] { return CifarResNet(18, out); }},
      {"resnet50", [&] { return ResNet50(input, out); }},
      {"vgg16", [&] { return Vgg(3, out); }},
      {"vgg19", [&] { return Vgg(4, out); }},
      {"gpt", [&] { return Transformer(config, true, out); }},
      {"bert", [&] { return Transformer(config, false, out); }}};
  const auto found = models.find(config.name);
  if (found != models.end()) {
    return found->second();
  }
  std::string names;
  for (const auto& [name, make] : models) {
    names.append(names.empty() ? "" : ", ").append(name);
  }
  return Status::InvalidArgument(
      fmt::format("no model named '{}'; known are {}, or give layers", config.name, names));
}

}  // namespace ps::worker
