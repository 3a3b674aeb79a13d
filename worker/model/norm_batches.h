#pragma once

#include <cstdint>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "worker/model/model.h"

namespace ps::worker {

bool HasBatchNorm(const Model& model);

/// The fewest samples that may be computed together in a training step: 2 where a batch norm gets
/// one value a channel from a sample, else 1. Of a single value the mean is the value and the
/// variance 0, so the layer gives the same whatever came in, nothing in front of it learns, and its
/// running variance goes to 0.
int64_t LeastTrainBatch(const Model& model);

/// Whether the job's minibatches and pieces of them have as many. The last minibatch of an epoch
/// may have fewer: nothing is learnt from it. Errors: kInvalidArgument with the field.
Status CheckTrainBatches(const proto::JobConfig& config, const Model& model);

}  // namespace ps::worker
