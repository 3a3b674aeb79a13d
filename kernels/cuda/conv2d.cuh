#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/kernels.h"

// Convolution as a product of matrices that are never written down. With s a sample, (kh,kw) a
// place in the kernel, i an input channel and o an output channel:
//
//   forward           y[(s,oh,ow), o] = sum over (kh,kw,i) of patch * w, the patch being
//                     x[s, oh*stride+kh-padding, ow*stride+kw-padding, i], 0 outside of the image
//   input's gradient  dx[(s,ih,iw), i] = sum over (kh,kw,o) of dy[s,oh,ow,o] * w, where
//                     oh*stride = ih+padding-kh, 0 where there is no such oh
//   weights' gradient dw[o, (kh,kw,i)] = sum over (s,oh,ow) of dy * patch

namespace ps::kernels {

/// Blocks that keep a large device busy.
constexpr int64_t kConvBlocks = 264;

constexpr int kOutside = -(1 << 30);  // a row that no image has, nor with a place in the kernel

inline int64_t OutputPixels(const ConvShape& shape) {
  return shape.n * shape.out_height * shape.out_width;
}

/// Weights of an output channel.
inline int64_t Taps(const Conv2dOptions& o) {
  return o.kernel * o.kernel * (o.in_channels / o.groups);
}

/// Where an image [height, width, channels] has a value; nullptr: it is outside.
__device__ inline const float* ValueAt(
    const float* image, int height, int width, int channels, int row, int column, int channel) {
  const bool is_inside = static_cast<unsigned>(row) < static_cast<unsigned>(height) &&
                         static_cast<unsigned>(column) < static_cast<unsigned>(width);
  return is_inside ? image + (row * width + column) * channels + channel : nullptr;
}

}  // namespace ps::kernels
