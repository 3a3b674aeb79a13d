#pragma once

#include <memory>

#include "kernels/op.h"
#include "kernels/op_spec.h"
#include "ps/base/status.h"

namespace ps::kernels {

class CudaStream;

/// Stream::MakeOp of a CUDA device. `stream` outlives the op.
Result<std::unique_ptr<Op>> MakeCudaOp(const OpSpec& spec, CudaStream* stream);

}  // namespace ps::kernels
