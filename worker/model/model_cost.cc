#include "worker/model/model_cost.h"

#include "worker/model/layer_rule.h"

namespace ps::worker {
namespace {

void AppendCosts(const Model& model, const std::vector<Layer>& layers, std::vector<LayerCost>* to) {
  for (const Layer& layer : layers) {
    AppendCosts(model, layer.body, to);
    AppendCosts(model, layer.shortcut, to);
    const auto flops = LayerRuleOf(layer.kind).flops;
    LayerCost cost{
        .name = layer.name,
        .out = layer.out,
        .flops = flops != nullptr ? flops(layer) : layer.out.element_count()};
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
