#pragma once

#include <span>

#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/job/job_config.h"

namespace ps::proto {

/// How the optimizer treats a tensor, by JobConfig::parameters. Servers and workers reckon it from
/// the job, each for itself: a run may be resumed with other groups.
struct TensorTreatment {
  float lr_factor = 1;  // of the learning rate
  bool has_weight_decay = false;
  bool is_frozen = false;  // neither pushed nor changed

  friend bool operator==(const TensorTreatment&, const TensorTreatment&) = default;
};

/// That of the first group which has the tensor; the tensor's own without one.
TensorTreatment TreatmentOf(std::span<const ParameterGroup> groups, const TensorSpec& tensor);

/// Whether each pattern is of some tensor of the model, and some tensor is trained. Errors:
/// kInvalidArgument with the field, and a name that is meant perhaps.
Status CheckGroups(std::span<const ParameterGroup> groups, std::span<const TensorSpec> tensors);

}  // namespace ps::proto
