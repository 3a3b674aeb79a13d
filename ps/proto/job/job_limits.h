#pragma once

#include <cstdint>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/job/job_config.h"

namespace ps::proto {

// What a config asks for with the model that it leads to, against the limits of limits.h and of the
// config itself. Errors: kInvalidArgument that begins with the field at fault, for AtItsField, and
// says the numbers and what is allowed.

/// The model's tensors and the chunks that they are cut into.
Status CheckModelLimits(const JobConfig& config, const std::vector<TensorSpec>& tensors);

/// Under bsp a shard keeps a gradient of each worker until the round is committed.
/// `largest_shard_bytes` is what the shard with most of the parameters has of them.
Status CheckRoundLimits(const JobConfig& config, uint64_t largest_shard_bytes);

}  // namespace ps::proto
