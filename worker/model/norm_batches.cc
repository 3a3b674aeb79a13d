#include "worker/model/norm_batches.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "worker/model/layer_rule.h"

namespace ps::worker {
namespace {

/// Pieces of so many can be cut so that none has one sample: see Division.
constexpr int64_t kPairPiece = 3;

/// Whether `is_one` says yes to any layer, nested ones included.
template <typename Predicate>
bool AnyLayer(const std::vector<Layer>& layers, const Predicate& is_one) {
  return std::ranges::any_of(layers, [&](const Layer& layer) {
    return is_one(layer) || AnyLayer(layer.body, is_one) || AnyLayer(layer.shortcut, is_one);
  });
}

bool IsBatchNorm(const Layer& layer) {
  return LayerRuleOf(layer.kind).traits.mixes_samples;
}

Status TooFew(const std::string& field, uint32_t value, int64_t least) {
  return value >= least
             ? Status::Ok()
             : Status::InvalidArgument(fmt::format(
                   "{} is {}, and a batch_norm of this model gets one value a channel from a "
                   "sample, of which it can learn nothing; allowed: from {}, better 16 or more, or "
                   "layer_norm instead",
                   field,
                   value,
                   least));
}

}  // namespace

bool HasBatchNorm(const Model& model) {
  return AnyLayer(model.layers, IsBatchNorm);
}

int64_t LeastTrainBatch(const Model& model) {
  const bool needs_two = AnyLayer(model.layers, [](const Layer& layer) {
    return IsBatchNorm(layer) && layer.in.height * layer.in.width == 1;
  });
  return needs_two ? 2 : 1;
}

Status CheckTrainBatches(const proto::JobConfig& config, const Model& model) {
  const int64_t least = LeastTrainBatch(model);
  bool is_default_used = config.workers.empty();
  for (size_t i = 0; i < config.workers.size(); ++i) {
    const uint32_t minibatch = config.workers[i].minibatch;
    is_default_used = is_default_used || minibatch == 0;
    if (minibatch != 0) {
      PS_TRY(TooFew(fmt::format("workers[{}].minibatch", i), minibatch, least));
    }
  }
  if (is_default_used) {
    PS_TRY(TooFew("train.minibatch", config.train.minibatch, least));
  }
  return config.train.micro_batch == 0
             ? Status::Ok()
             : TooFew("train.micro_batch", config.train.micro_batch, least == 1 ? 1 : kPairPiece);
}

}  // namespace ps::worker
