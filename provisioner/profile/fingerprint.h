#pragma once

#include <string>
#include <vector>

#include "ps/base/tensor_spec.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

/// The mark of a model's tensors that profiles and plans carry: 8 hexadecimal digits.
std::string ModelFingerprint(const std::vector<TensorSpec>& tensors);

/// The mark of what a job trains with: data, model, optimizer, train, as far as loss curves and
/// step times depend on them. 8 hexadecimal digits. The number of epochs counts when the learning
/// rate follows it; seeds, leases, evaluations and what follows a divergence never do.
std::string TrainingFingerprint(const proto::JobConfig& config);

}  // namespace ps::provisioner
