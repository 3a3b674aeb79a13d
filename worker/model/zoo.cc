#include "worker/model/zoo.h"

#include <string>
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

Layers ResNet20(int32_t classes) {
  Layers layers;
  AppendConvNorm(16, 3, 1, &layers);
  layers.push_back(Simple(LayerKind::kRelu));
  for (const int32_t width : {16, 32, 64}) {
    for (int block = 0; block < 3; ++block) {
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

}  // namespace

Result<Layers> ZooLayers(std::string_view name, int64_t classes) {
  const auto out = static_cast<int32_t>(classes);
  if (name == "mlp") {
    return Mlp(out);
  }
  if (name == "cnn") {
    return Cnn(out);
  }
  if (name == "resnet20") {
    return ResNet20(out);
  }
  return Status::InvalidArgument(
      "no model named '" + std::string(name) + "'; known are mlp, cnn, resnet20, or give layers");
}

}  // namespace ps::worker
