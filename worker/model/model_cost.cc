#include "worker/model/model_cost.h"

namespace ps::worker {
namespace {

using proto::LayerKind;

// Operations for each element, about.
constexpr int64_t kNormFlops = 8;
constexpr int64_t kGeluFlops = 10;
constexpr int64_t kSoftmaxFlops = 5;

int64_t ForwardFlops(const Layer& layer) {
  const int64_t out = layer.out.element_count();
  const int64_t window = int64_t{layer.config.kernel} * layer.config.kernel;
  switch (layer.kind) {
    case LayerKind::kLinear:
      return 2 * layer.in.channels * out;
    case LayerKind::kConv2d:
      return 2 * layer.in.channels * window * out;
    case LayerKind::kBatchNorm:
    case LayerKind::kLayerNorm:
      return kNormFlops * out;
    case LayerKind::kMaxPool:
    case LayerKind::kAvgPool:
      return window * out;
    case LayerKind::kGlobalAvgPool:
      return layer.in.element_count();
    case LayerKind::kGelu:
      return kGeluFlops * out;
    case LayerKind::kAttention: {
      // Scores and their product with the values; of a causal one, half of each.
      const int64_t pairs =
          layer.in.height * (layer.config.causal ? layer.in.height + 1 : 2 * layer.in.height) / 2;
      return pairs * (4 * layer.out.channels + kSoftmaxFlops * layer.config.heads);
    }
    case LayerKind::kFlatten:
      return 0;
    case LayerKind::kRelu:
    case LayerKind::kDropout:
    case LayerKind::kEmbedding:
    case LayerKind::kResidual:  // the sum
    case LayerKind::kFeedForward:
    case LayerKind::kSoftmaxCrossEntropy:
      break;
  }
  return out;
}

void AppendCosts(const Model& model, const std::vector<Layer>& layers, std::vector<LayerCost>* to) {
  for (const Layer& layer : layers) {
    AppendCosts(model, layer.body, to);
    AppendCosts(model, layer.shortcut, to);
    LayerCost cost{.name = layer.name, .out = layer.out, .flops = ForwardFlops(layer)};
    for (uint32_t i = 0; i < layer.tensor_count; ++i) {
      cost.parameters += model.tensors[layer.first_tensor + i].element_count();
    }
    to->push_back(std::move(cost));
  }
}

}  // namespace

std::vector<LayerCost> CostsOf(const Model& model) {
  std::vector<LayerCost> costs;
  AppendCosts(model, model.layers, &costs);
  return costs;
}

}  // namespace ps::worker
