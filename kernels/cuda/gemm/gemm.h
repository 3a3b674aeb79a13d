#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "kernels/cuda/kernels.h"
#include "ps/base/status.h"

namespace ps::kernels {

class GemmChoices;

/// Multiplies matrices in one stream. Operands are in device memory, at any alignment of their
/// type: where all begin at multiples of 16 bytes, and rows are apart by such, products are
/// fastest. Memory is aligned to 64 bytes, and tensors within it (proto::TensorLayout).
/// Thread: the stream's.
class Gemm {
 public:
  virtual ~Gemm() = default;

  /// Whether the library multiplies in that precision on this device. Else a plain kernel does.
  virtual bool Takes(Precision precision) const = 0;

  /// What Run needs for that shape, unless it is there. May take memory, wait for the stream, and
  /// run products in it, so nothing may be recorded meanwhile.
  /// Errors: kUnsupported; kInvalidArgument without memory; kUnavailable when the device failed.
  virtual Status Prepare(cudaStream_t stream, const GemmShape& shape) = 0;

  /// `a`, `b` and `c` are f32, or bf16 where the shape says so. `bias` is read if the shape has
  /// one. The same operands give the same bits from Prepare on, in all streams of the device.
  /// `a_as_before`: the stored matrix a is that of the last Run, unchanged, so that a rounded copy
  /// of it is still there.
  /// Requires: Prepare. Errors: as Prepare; what the library refused.
  virtual Status Run(
      cudaStream_t stream,
      const GemmShape& shape,
      const void* a,
      const void* b,
      const float* bias,
      void* c,
      bool a_as_before) = 0;
};

/// Loads cuBLASLt the first time. Products are in f32, not in TF32, or of factors in bf16 that are
/// added up in f32. Sums have a fixed order, whichever algorithm is taken. `choices` are those of
/// the device, and outlive the gemm.
///
/// With choices that time products the order of sums, and so the last bits, may differ from one
/// process to the next, and from one device to another.
/// Errors: kUnsupported when the library can't be loaded or used; kInvalidArgument without memory.
Result<std::unique_ptr<Gemm>> MakeCublasGemm(int device, GemmChoices* choices);

}  // namespace ps::kernels
