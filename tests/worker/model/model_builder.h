#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ps/proto/job/job_config.h"

namespace ps::worker::test {

using Layers = std::vector<proto::LayerConfig>;

// Layers of a config in one line each. A convolution keeps the size unless told otherwise.

inline proto::LayerConfig Simple(proto::LayerKind kind) {
  proto::LayerConfig layer;
  layer.kind = kind;
  return layer;
}

inline proto::LayerConfig Flatten() {
  return Simple(proto::LayerKind::kFlatten);
}

inline proto::LayerConfig GlobalAvgPool() {
  return Simple(proto::LayerKind::kGlobalAvgPool);
}

inline proto::LayerConfig Relu() {
  return Simple(proto::LayerKind::kRelu);
}

inline proto::LayerConfig Gelu() {
  return Simple(proto::LayerKind::kGelu);
}

inline proto::LayerConfig Tanh() {
  return Simple(proto::LayerKind::kTanh);
}

inline proto::LayerConfig Sigmoid() {
  return Simple(proto::LayerKind::kSigmoid);
}

inline proto::LayerConfig Linear(int32_t out) {
  proto::LayerConfig layer = Simple(proto::LayerKind::kLinear);
  layer.out = out;
  return layer;
}

inline proto::LayerConfig Conv2d(
    int32_t out, int32_t kernel, int32_t stride = 1, int32_t padding = -1000) {
  proto::LayerConfig layer = Simple(proto::LayerKind::kConv2d);
  layer.out = out;
  layer.kernel = kernel;
  layer.stride = stride;
  layer.padding = padding == -1000 ? kernel / 2 : padding;
  return layer;
}

inline proto::LayerConfig Grouped(int32_t groups, proto::LayerConfig conv) {
  conv.groups = groups;
  return conv;
}

inline proto::LayerConfig Pool(proto::LayerKind kind, int32_t kernel) {
  proto::LayerConfig layer = Simple(kind);
  layer.kernel = kernel;
  layer.stride = kernel;
  return layer;
}

inline proto::LayerConfig MaxPool(int32_t kernel) {
  return Pool(proto::LayerKind::kMaxPool, kernel);
}

inline proto::LayerConfig AvgPool(int32_t kernel) {
  return Pool(proto::LayerKind::kAvgPool, kernel);
}

inline proto::LayerConfig BatchNorm(float momentum = 0.1F) {
  proto::LayerConfig layer = Simple(proto::LayerKind::kBatchNorm);
  layer.momentum = momentum;
  return layer;
}

inline proto::LayerConfig GroupNorm(int32_t groups) {
  proto::LayerConfig layer = Simple(proto::LayerKind::kGroupNorm);
  layer.groups = groups;
  return layer;
}

inline proto::LayerConfig Dropout(float rate) {
  proto::LayerConfig layer = Simple(proto::LayerKind::kDropout);
  layer.rate = rate;
  return layer;
}

inline proto::LayerConfig Residual(Layers body, Layers shortcut) {
  proto::LayerConfig layer = Simple(proto::LayerKind::kResidual);
  layer.layers = std::move(body);
  layer.shortcut = std::move(shortcut);
  return layer;
}

inline proto::LayerConfig Huber(float delta) {
  proto::LayerConfig layer = Simple(proto::LayerKind::kHuber);
  layer.delta = delta;
  return layer;
}

inline proto::LayerConfig CrossEntropy(float smoothing, std::vector<float> weights) {
  proto::LayerConfig layer = Simple(proto::LayerKind::kSoftmaxCrossEntropy);
  layer.label_smoothing = smoothing;
  layer.class_weights = std::move(weights);
  return layer;
}

}  // namespace ps::worker::test
