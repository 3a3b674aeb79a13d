#pragma once

#include "ps/base/tensor_spec.h"
#include "ps/codec/encoding.h"
#include "ps/proto/job/job_config.h"

namespace ps::proto {

using ps::codec::Encoding;

// What travels as what, by a job. Requires of each: the job's config has been checked.

/// What the gradients of an optimizer's tensors travel as.
Encoding PushEncodingOf(const JobConfig& config);

/// What pushes to tensors of this rule travel as in a job of that encoding. Observations stay as
/// they are: they are averaged over many steps, where small differences count.
constexpr Encoding PushEncodingOf(Encoding job, UpdateRule rule) {
  return rule == UpdateRule::kOptimizer ? job : Encoding{};
}

/// Whether a worker's device leaves its gradients as they travel. Else they are f32, and the worker
/// encodes them.
bool IsEncodedByDevice(const JobConfig& config);

/// Whether a worker keeps what encoding has lost of its gradients.
bool HasErrorFeedback(const JobConfig& config);

/// What parameters travel as to a worker that trains.
Encoding PullEncodingOf(const JobConfig& config);

}  // namespace ps::proto
