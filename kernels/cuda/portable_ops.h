#pragma once

#include <memory>

#include "kernels/cuda/stream.h"
#include "kernels/op.h"
#include "kernels/op_spec.h"

namespace ps::kernels {

/// An op of kernels/ops, for MakeCudaOp. `stream` outlives it. Requires: the options are one's.
std::unique_ptr<Op> MakePortableCudaOp(const OpSpec& spec, CudaStream* stream);

}  // namespace ps::kernels
