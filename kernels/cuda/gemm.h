#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/kernels.h"
#include "ps/base/status.h"

namespace ps::kernels {

/// Multiplies matrices in one stream. Thread: the stream's.
class Gemm {
 public:
  virtual ~Gemm() = default;

  /// What Run needs for that shape, unless it is there. Errors: kUnsupported.
  virtual Status Prepare(const GemmShape& shape) = 0;
  /// Requires: Prepare. `bias` is read if the shape has one.
  virtual cudaError_t Run(
      cudaStream_t stream,
      const GemmShape& shape,
      const float* a,
      const float* b,
      const float* bias,
      float* c) = 0;
};

/// Loads cuBLASLt the first time. Products are in f32, not in TF32, or of factors in bf16
/// that are added up in f32.
/// Errors: kUnsupported when the library can't be loaded or used; kInvalidArgument without memory.
Result<std::unique_ptr<Gemm>> MakeCublasGemm(int device);

}  // namespace ps::kernels
