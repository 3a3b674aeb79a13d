#pragma once

#include <memory>

#include "kernels/cuda/stream.h"
#include "kernels/op.h"
#include "kernels/op_spec.h"

namespace ps::kernels {

// The ops that compute relu behind them when their options say so, for MakeCudaOp. `stream`
// outlives the op.

Result<std::unique_ptr<Op>> MakeCudaLinear(const LinearOptions& options, CudaStream* stream);
Result<std::unique_ptr<Op>> MakeCudaConv2d(const Conv2dOptions& options, CudaStream* stream);
Result<std::unique_ptr<Op>> MakeCudaBatchNorm(const BatchNormOptions& options, CudaStream* stream);

}  // namespace ps::kernels
