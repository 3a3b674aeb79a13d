#include "worker/model/causal.h"

#include <algorithm>
#include <vector>

namespace ps::worker {
namespace {

bool AreCausal(const std::vector<Layer>& layers) {
  return std::ranges::all_of(layers, [](const Layer& layer) {
    return (layer.kind != proto::LayerKind::kAttention || layer.config.causal) &&
           AreCausal(layer.body) && AreCausal(layer.shortcut);
  });
}

}  // namespace

bool IsCausal(const Model& model) {
  return AreCausal(model.layers);
}

}  // namespace ps::worker
