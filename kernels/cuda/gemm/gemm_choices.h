#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/cuda/kernels.h"

namespace ps::kernels {

/// How cuBLASLt multiplies.
struct GemmAlgorithm {
  cublasLtMatmulAlgo_t algo{};
  size_t workspace_bytes = 0;
};

/// Which algorithm each product of a device takes. It stays what it is, so that all streams of the
/// device give the same bits as long as the device is open, whatever they time and forget.
/// Grows with the shapes of products that there ever were, by some 200 bytes each. Thread: any.
class GemmChoices {
 public:
  /// With `times`, products are timed to find the fastest; without, the library's best guess is
  /// taken, which is the same in every process.
  explicit GemmChoices(bool times) : times_(times) {}

  bool times() const { return times_; }

  std::optional<GemmAlgorithm> Find(const GemmShape& shape, bool is_aligned) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = taken_.find({shape, is_aligned});
    return it == taken_.end() ? std::nullopt : std::optional(it->second);
  }

  /// What is taken from now on: `algorithm`, unless another stream has been first.
  GemmAlgorithm Take(const GemmShape& shape, bool is_aligned, const GemmAlgorithm& algorithm) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return taken_.try_emplace({shape, is_aligned}, algorithm).first->second;
  }

 private:
  const bool times_;
  mutable std::mutex mutex_;  // of what follows
  std::map<std::pair<GemmShape, bool>, GemmAlgorithm> taken_;
};

}  // namespace ps::kernels
