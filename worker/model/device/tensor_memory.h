#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"
#include "ps/proto/chunks.h"
#include "worker/model/model.h"

namespace ps::worker {

/// Device memory that holds all of a model's tensors, of one layout.
class TensorMemory {
 public:
  /// Unless it is there. Errors: kInvalidArgument when memory is short.
  Status Reserve(kernels::Backend* backend, const Model& model, const proto::TensorLayout& layout);

  bool is_reserved() const { return memory_ != nullptr; }

  /// All tensors in one piece, as the layout has them. Requires: it is reserved.
  float* floats() const { return memory_->floats(); }

  /// The same, with what lies between the tensors.
  std::span<float> all() const { return {floats(), memory_->size() / sizeof(float)}; }

  kernels::Spans spans() const { return spans_; }

  kernels::ConstSpans const_spans() const { return const_spans_; }

 private:
  std::unique_ptr<kernels::Memory> memory_;
  std::vector<std::span<float>> spans_;
  std::vector<std::span<const float>> const_spans_;
};

}  // namespace ps::worker
