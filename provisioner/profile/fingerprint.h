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
/// rate follows it; seeds, leases, evaluations and what follows a divergence never do. Nor does the
/// number of local steps, which profiles and plans state by themselves.
std::string TrainingFingerprint(const proto::JobConfig& config);

/// Whether that fingerprint is of a job that trains like this one, but for its number of local
/// steps and what comes with them. An empty one is not known to be of another.
bool TrainsLike(const proto::JobConfig& config, const std::string& fingerprint);

}  // namespace ps::provisioner
