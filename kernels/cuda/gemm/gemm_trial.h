#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <span>

#include "kernels/cuda/gemm/cublas_plan.h"
#include "kernels/cuda/gemm/gemm_choices.h"
#include "ps/base/status.h"

namespace ps::kernels {

/// Runs a product by an algorithm once; false: the library refuses that.
using RunProduct = std::function<bool(const GemmAlgorithm& algorithm)>;

/// Which of the algorithms is the fastest, by the device's clock: each runs in the stream once to
/// be loaded, and then up to three times. A later one is taken only if it is clearly faster, so
/// that noise rarely decides. It ends after kTrialMs of the device's time and the algorithm that
/// ran then. Returns a place in `algorithms`, which is not empty. Requires: the stream captures
/// nothing. Errors: kUnavailable when the device has failed.
Result<size_t> FastestOf(
    cudaStream_t stream, std::span<const GemmAlgorithm> algorithms, const RunProduct& run);

constexpr float kTrialMs = 50;

/// Device memory for a trial. No recording names it, so it may go while there are some.
class TrialMemory {
 public:
  TrialMemory() = default;
  TrialMemory(const TrialMemory&) = delete;
  TrialMemory& operator=(const TrialMemory&) = delete;
  ~TrialMemory();

  /// Once, from the current device. data() stays nullptr when there is not so much.
  /// Errors: kUnavailable when the device has failed.
  Status Take(size_t size_bytes);

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

}  // namespace ps::kernels
