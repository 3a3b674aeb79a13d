#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <vector>

#include "ps/base/status.h"
#include "worker/model/batch.h"
#include "worker/model/model.h"
#include "worker/model/picture_format.h"

namespace ps::worker {

/// Errors: kInvalidArgument unless there is a span of the right size for each tensor.
template <typename Spans>
Status CheckSizes(const char* what, const Spans& spans, const std::vector<TensorSpec>& tensors) {
  if (spans.size() != tensors.size()) {
    return Status::InvalidArgument(
        fmt::format("{}: {} tensors, the model has {}", what, spans.size(), tensors.size()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (static_cast<int64_t>(spans[i].size()) != tensors[i].element_count()) {
      return Status::InvalidArgument(fmt::format(
          "{}: {} has {} elements instead of {}",
          what,
          tensors[i].name,
          spans[i].size(),
          tensors[i].element_count()));
    }
  }
  return Status::Ok();
}

/// Errors: kInvalidArgument unless the numbers of a batch of n samples are in range and the sizes
/// agree. `pictures`: the batch has these instead of values; may be nullptr.
Status CheckBatch(const Model& model, const PictureFormat* pictures, const Batch& batch, int64_t n);

}  // namespace ps::worker
