#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

// What the passes of attention read: x and dy as they are, or copies that are rounded to bf16 once
// instead of by each block that loads them. Activations that were bf16 would need no copies.

namespace ps::kernels {

/// Values of the copies of x and, for the backward pass, of dy.
constexpr int64_t FactorCount(const AttentionShape& shape, bool is_backward) {
  const int64_t pitch = FactorPitch(shape.options.precision, shape.head_width);
  return shape.n * shape.options.length * shape.options.heads * pitch *
         (kParts + (is_backward ? 1 : 0));
}

/// Eight values of a head from `column` on, 0 where there are none.
__device__ inline void LoadEight(
    const float* line, int column, int width, bool are_aligned, float (&values)[8]) {
  if (are_aligned && column + 8 <= width) {
    PS_UNROLL
    for (int i = 0; i < 8; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(line + column + i);
      values[i] = four.x;
      values[i + 1] = four.y;
      values[i + 2] = four.z;
      values[i + 3] = four.w;
    }
    return;
  }
  PS_UNROLL
  for (int i = 0; i < 8; ++i) {
    values[i] = column + i < width ? line[column + i] : 0.0F;
  }
}

__device__ inline uint4 ToBf16Eight(const float (&values)[8]) {
  return {
      ToBf16Pair(values[0], values[1]),
      ToBf16Pair(values[2], values[3]),
      ToBf16Pair(values[4], values[5]),
      ToBf16Pair(values[6], values[7])};
}

/// Rounds eights of heads of `width` values.
struct RoundEights {
  __device__ void operator()(int64_t i) const {
    // Mostly there is no gap between heads, and nothing to divide.
    const int64_t head = has_gaps ? i / eights : 0;
    const int64_t column = 8 * (has_gaps ? i % eights : i);
    float values[8];
    if (has_gaps) {
      LoadEight(from + head * width, static_cast<int>(column), width, false, values);
    } else {
      LoadEight(from + column, 0, 8, is_aligned, values);
    }
    to[i] = ToBf16Eight(values);
  }

  const float* from;
  uint4* to;
  int width;
  int eights;  // of a head
  bool has_gaps;
  bool is_aligned;
};

/// deltas = sum of y * dy over a head's columns, and a copy of dy if it is rounded. A lane has
/// eight columns.
template <int width, Precision precision>
__global__ void AttentionDeltaKernel(
    AttentionShape shape, const float* y, const float* dy, uint4* rounded, float* deltas) {
  constexpr int kLanes = width / 8;  // of a row of a head
  const AttentionOptions& o = shape.options;
  const auto head_width = static_cast<int>(shape.head_width);
  const int eights = (head_width + 7) / 8;
  const int eight = static_cast<int>(threadIdx.x % kLanes);
  const bool are_aligned = head_width % 4 == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0 &&
                           reinterpret_cast<uintptr_t>(dy) % 16 == 0;
  const int64_t count = shape.n * o.length * o.heads;
  // All lanes of a warp go as often.
  const int64_t warp_rows = 32 / kLanes;
  const int64_t lane_row = static_cast<int64_t>(threadIdx.x % 32) / kLanes;
  for (int64_t row0 = FirstElement() / 32 * warp_rows; row0 < count;
       row0 += ElementStride() / 32 * warp_rows) {
    const int64_t row = row0 + lane_row;
    const bool is_there = row < count && eight < eights;
    float sum = 0;
    if (is_there) {
      float of_y[8];
      float of_dy[8];
      LoadEight(y + row * head_width, 8 * eight, head_width, are_aligned, of_y);
      LoadEight(dy + row * head_width, 8 * eight, head_width, are_aligned, of_dy);
      PS_UNROLL
      for (int i = 0; i < 8; ++i) {
        sum += of_y[i] * Rounded<precision>(of_dy[i]);
      }
      if constexpr (precision == Precision::kBf16) {
        rounded[row * eights + eight] = ToBf16Eight(of_dy);
      }
    }
    PS_UNROLL
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    }
    if (row < count && eight == 0) {
      const int64_t token = row / o.heads;
      const int64_t head = token / o.length * o.heads + row % o.heads;
      deltas[head * RowPitch(o.length) + token % o.length] = sum;
    }
  }
}

/// A pass's scratch memory: copies, then the values of rows.
template <Precision precision>
class Scratch {
 public:
  using Factor = AttentionFactor<precision>;
  static constexpr bool kIsRounded = precision == Precision::kBf16;

  Scratch(const AttentionShape& shape, float* memory)
      : memory_(memory),
        x_floats_(kIsRounded ? FactorCount(shape, false) / 2 : 0),
        floats_(kIsRounded ? FactorCount(shape, true) / 2 : 0) {}

  /// Where factors are: `x` itself, or a copy of it.
  const Factor* X(const float* x) const { return Of(x, 0); }

  const Factor* Dy(const float* dy) const { return Of(dy, x_floats_); }

  uint4* RoundedDy() const {
    return kIsRounded ? reinterpret_cast<uint4*>(memory_ + x_floats_) : nullptr;
  }

  float* Deltas() const { return memory_ + floats_; }

  /// Makes the copy of x, if there is one.
  cudaError_t RoundX(cudaStream_t stream, const AttentionShape& shape, const float* x) const {
    const auto width = static_cast<int>(shape.head_width);
    const bool is_aligned = reinterpret_cast<uintptr_t>(x) % sizeof(float4) == 0;
    return kIsRounded ? ForEach(
                            stream,
                            FactorCount(shape, false) / 8,
                            RoundEights{
                                x,
                                reinterpret_cast<uint4*>(memory_),
                                width,
                                (width + 7) / 8,
                                width % 8 != 0,
                                is_aligned})
                      : cudaSuccess;
  }

 private:
  const Factor* Of(const float* values, int64_t floats) const {
    if constexpr (kIsRounded) {
      return reinterpret_cast<const Factor*>(memory_ + floats);
    } else {
      return values;
    }
  }

  float* memory_;
  int64_t x_floats_;
  int64_t floats_;
};

template <int width, Precision precision>
cudaError_t MakeDeltas(
    cudaStream_t stream,
    const AttentionShape& shape,
    const float* y,
    const float* dy,
    const Scratch<precision>& scratch) {
  constexpr int64_t kRowsOfBlock = kThreads / 32 * (32 / (width / 8));
  const int64_t rows = shape.n * shape.options.heads * shape.options.length;
  const int64_t blocks = DivideUp(rows, kRowsOfBlock);
  return Launch(
      stream,
      dim3(static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax)),
      dim3(kThreads),
      &AttentionDeltaKernel<width, precision>,
      shape,
      y,
      dy,
      scratch.RoundedDy(),
      scratch.Deltas());
}

}  // namespace ps::kernels
