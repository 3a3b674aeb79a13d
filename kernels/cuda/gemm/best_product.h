#pragma once

#include <cstdint>
#include <memory>

#include "kernels/backend.h"
#include "ps/base/status.h"

namespace ps::kernels {

/// The most that a device multiplies, as a yardstick of benchmarks: c = a b^T by cuBLASLt and
/// nothing else. All three are [edge, edge] bf16 in memory, and sums are f32.
class BestProduct {
 public:
  virtual ~BestProduct() = default;

  /// Puts one product into the stream.
  virtual void Run() = 0;
};

/// `stream` is one of `backend`, a CUDA device, and outlives the product.
/// Errors: kUnsupported where cuBLASLt does not multiply bf16; kInvalidArgument without memory.
Result<std::unique_ptr<BestProduct>> MakeBestProduct(
    Backend* backend, Stream* stream, int64_t edge);

}  // namespace ps::kernels
