#pragma once

#include <memory>

#include "kernels/cuda/stream.h"
#include "kernels/op.h"
#include "kernels/op_spec.h"

namespace ps::kernels {

// The ops of sequences, for MakeCudaOp. `stream` outlives the op.

Result<std::unique_ptr<Op>> MakeCudaEmbedding(const EmbeddingOptions& options, CudaStream* stream);
Result<std::unique_ptr<Op>> MakeCudaLayerNorm(const LayerNormOptions& options, CudaStream* stream);
/// Errors: kUnsupported for heads wider than kHeadWidthMax.
Result<std::unique_ptr<Op>> MakeCudaAttention(const AttentionOptions& options, CudaStream* stream);

}  // namespace ps::kernels
