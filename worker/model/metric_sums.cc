#include "worker/model/metric_sums.h"

#include <bit>

#include "kernels/loss.h"

namespace ps::worker {

using kernels::LossKind;

void AddMetrics(
    const Model& model,
    const BatchLoss& loss,
    std::span<const uint32_t> labels,
    std::span<const double> target_means,
    proto::MetricSums* sums) {
  if (model.counts_near()) {
    sums->near_hits += static_cast<uint64_t>(loss.near);
    sums->near_samples += static_cast<uint64_t>(loss.samples);
  }
  if (HasClasses(model.loss.kind) || model.loss.kind == LossKind::kBce) {
    return;
  }
  sums->squared_error += loss.squared_error;
  sums->absolute_error += loss.absolute_error;
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const double target = static_cast<double>(std::bit_cast<float>(labels[i])) -
                          target_means[i % target_means.size()];
    sum += target;
    squares += target * target;
  }
  const auto outputs = static_cast<double>(target_means.size());
  sums->target += sum / outputs;
  sums->target_square += squares / outputs;
}

}  // namespace ps::worker
