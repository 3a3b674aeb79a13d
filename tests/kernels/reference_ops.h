#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/op_spec.h"

namespace ps::kernels::test {

// What the ops compute, written as plainly as possible and in double: the truth of the parity
// tests. Layouts as in kernels/op.h: activations NHWC, parameters canonical.

using Values = std::vector<double>;
using Parameters = std::vector<Values>;
/// y of a batch of n samples x with these parameters.
using Reference = std::function<Values(int64_t n, const Values& x, const Parameters& params)>;

Reference ReferenceConv2d(const Conv2dOptions& options);
Reference ReferenceLinear(int64_t in, int64_t out, bool bias);
/// Training: statistics of the batch. `positions` is height * width.
Reference ReferenceBatchNorm(int64_t channels, int64_t positions, double epsilon);
/// Evaluation: running statistics, parameters 2 and 3.
Reference ReferenceBatchNormEvaluation(int64_t channels, int64_t positions, double epsilon);
Reference ReferencePool(const PoolOptions& options);
Reference ReferenceRelu();
Reference ReferenceGelu();
Reference ReferenceTanh();
Reference ReferenceSigmoid();
/// NHWC to NCHW.
Reference ReferenceFlatten(int64_t channels, int64_t positions);
/// NCHW to NHWC.
Reference ReferenceChannelsLast(int64_t channels, int64_t positions);
Reference ReferenceEmbedding(const EmbeddingOptions& options);
Reference ReferenceLayerNorm(int64_t features, double epsilon);
/// `positions` is height * width.
Reference ReferenceGroupNorm(int64_t channels, int64_t positions, int64_t groups, double epsilon);
Reference ReferenceAttention(const AttentionOptions& options);

}  // namespace ps::kernels::test
