#include "worker/model/layer_op.h"

#include "ps/base/check.h"

namespace ps::worker {
namespace {

kernels::PoolOptions PoolOf(const Layer& layer) {
  kernels::PoolOptions options{
      .kind = layer.kind == proto::LayerKind::kMaxPool ? kernels::PoolKind::kMax
                                                       : kernels::PoolKind::kAverage,
      .channels = layer.in.channels,
      .in_height = layer.in.height,
      .in_width = layer.in.width,
      .kernel_height = layer.config.kernel,
      .kernel_width = layer.config.kernel,
      .stride = layer.config.stride,
      .padding = layer.config.padding,
  };
  if (layer.kind == proto::LayerKind::kGlobalAvgPool) {
    options.kernel_height = layer.in.height;
    options.kernel_width = layer.in.width;
    options.stride = 1;
    options.padding = 0;
  }
  return options;
}

kernels::Conv2dOptions Conv2dOf(const Layer& layer, const LayerOpOptions& options) {
  return {
      .in_channels = layer.in.channels,
      .in_height = layer.in.height,
      .in_width = layer.in.width,
      .out_channels = layer.out.channels,
      .kernel = layer.config.kernel,
      .stride = layer.config.stride,
      .padding = layer.config.padding,
      .bias = layer.config.bias,
      .input_gradient = options.input_gradient,
      .precision = options.precision};
}

}  // namespace

kernels::OpSpec SpecOf(const Layer& layer, const LayerOpOptions& options, uint64_t index) {
  using proto::LayerKind;
  const Shape& in = layer.in;
  switch (layer.kind) {
    case LayerKind::kLinear:
      return kernels::LinearOptions{
          .in_features = in.channels,
          .out_features = layer.out.channels,
          .bias = layer.config.bias,
          .input_gradient = options.input_gradient,
          .precision = options.precision};
    case LayerKind::kConv2d:
      return Conv2dOf(layer, options);
    case LayerKind::kBatchNorm:
      return kernels::BatchNormOptions{
          .channels = in.channels,
          .height = in.height,
          .width = in.width,
          .epsilon = layer.config.epsilon,
          .input_gradient = options.input_gradient};
    case LayerKind::kMaxPool:
    case LayerKind::kAvgPool:
    case LayerKind::kGlobalAvgPool:
      return PoolOf(layer);
    case LayerKind::kRelu:
      return kernels::ReluOptions{.elements = in.element_count()};
    case LayerKind::kGelu:
      return kernels::GeluOptions{.elements = in.element_count()};
    case LayerKind::kDropout:
      return kernels::DropoutOptions{
          .elements = in.element_count(),
          .rate = layer.config.rate,
          .seed = options.seed,
          .layer = index};
    case LayerKind::kFlatten:
      return kernels::FlattenOptions{
          .channels = in.channels, .height = in.height, .width = in.width};
    case LayerKind::kEmbedding:
      return kernels::EmbeddingOptions{
          .vocabulary = in.vocabulary, .length = in.height, .width = layer.out.channels};
    case LayerKind::kLayerNorm:
      return kernels::LayerNormOptions{
          .features = in.channels,
          .epsilon = layer.config.epsilon,
          .input_gradient = options.input_gradient};
    case LayerKind::kAttention:
      return kernels::AttentionOptions{
          .length = in.height,
          .width = layer.out.channels,
          .heads = layer.config.heads,
          .causal = layer.config.causal,
          .precision = options.precision};
    case LayerKind::kResidual:
    case LayerKind::kFeedForward:
    case LayerKind::kSoftmaxCrossEntropy:
      break;
  }
  PS_CHECK(false) << "no op for " << LayerKindName(layer.kind);
  return kernels::ReluOptions{};
}

}  // namespace ps::worker
