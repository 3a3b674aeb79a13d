#pragma once

#include <cstdint>
#include <span>

#include "ps/proto/metric.h"
#include "worker/model/batch.h"
#include "worker/model/model.h"

namespace ps::worker {

/// Adds to `sums` what an evaluation tells of a batch besides its loss and hits. `target_means`:
/// where the model learns numbers, the mean of each over the training samples; else not looked at.
/// Requires: as many means as the model has outputs.
void AddMetrics(
    const Model& model,
    const BatchLoss& loss,
    std::span<const uint32_t> labels,
    std::span<const double> target_means,
    proto::MetricSums* sums);

}  // namespace ps::worker
