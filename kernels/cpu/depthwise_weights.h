#pragma once

#include <cstdint>
#include <span>

#include "kernels/op_spec.h"

namespace ps::kernels {

/// How many floats of scratch SumDepthwiseWeights needs.
int64_t DepthwiseScratch(const Conv2dOptions& options);

/// The gradients of a depthwise convolution with one output channel for each input channel.
///   x, dy    NHWC, of n samples
///   scratch  DepthwiseScratch floats
///   dw       [c,kh,kw]
///   db       [c], or empty
void SumDepthwiseWeights(
    const Conv2dOptions& options,
    int64_t n,
    const float* x,
    const float* dy,
    float* scratch,
    std::span<float> dw,
    std::span<float> db);

}  // namespace ps::kernels
