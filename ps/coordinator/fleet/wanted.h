#pragma once

#include <cstdint>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"

namespace ps::coordinator {

/// Whether it is about workers: not about servers, nor chunks.
bool IsOfWorkers(const proto::ScaleChange& change);

/// What `changes` make of `wanted`, a count for each group. A change of a type, or of all, is
/// spread over its groups in the proportions of their configured counts. Those that are not of
/// workers are left out. Errors: kNotFound (no such type), kInvalidArgument (no groups, no changes,
/// or a count below 0 or above `seats_max`).
Result<std::vector<uint32_t>> WantedAfter(
    const std::vector<proto::WorkerGroup>& groups,
    const std::vector<uint32_t>& wanted,
    const std::vector<proto::ScaleChange>& changes,
    uint32_t seats_max);

}  // namespace ps::coordinator
