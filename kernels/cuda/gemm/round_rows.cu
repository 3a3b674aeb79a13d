// Rounded copies of factors, with rows that begin where tensor cores load them fastest.

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/dense_factors.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace ps::kernels {
namespace {

constexpr int kAtOnce = 8;  // values of a thread: what it writes are 16 bytes

/// Index: numbers of eights, in 32 bits where they fit, since they are divided.
template <typename Index>
struct RoundEight {
  __device__ void operator()(int64_t i) const {
    const auto eight = static_cast<Index>(i);
    const Index row = eight / eights;
    const int64_t first = int64_t{kAtOnce} * static_cast<int64_t>(eight - row * eights);
    const float* const from = x + static_cast<int64_t>(row) * from_pitch + first;
    float values[kAtOnce];
    if (are_fours && first + kAtOnce <= columns) {
      PS_UNROLL
      for (int j = 0; j < kAtOnce; j += 4) {
        const float4 four = *reinterpret_cast<const float4*>(from + j);
        values[j] = four.x;
        values[j + 1] = four.y;
        values[j + 2] = four.z;
        values[j + 3] = four.w;
      }
    } else {
      PS_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        values[j] = first + j < columns ? from[j] : 0.0F;
      }
    }
    float4 pairs;  // of bf16 each
    pairs.x = __uint_as_float(ToBf16Pair(values[0], values[1]));
    pairs.y = __uint_as_float(ToBf16Pair(values[2], values[3]));
    pairs.z = __uint_as_float(ToBf16Pair(values[4], values[5]));
    pairs.w = __uint_as_float(ToBf16Pair(values[6], values[7]));
    *reinterpret_cast<float4*>(y + kAtOnce * i) = pairs;
  }

  const float* x;
  int64_t columns;
  int64_t from_pitch;
  bool are_fours;  // rows begin where fours can be loaded at once
  uint16_t* y;
  Index eights;  // in a row of y
};

}  // namespace

cudaError_t RoundRows(
    cudaStream_t stream,
    const float* x,
    int64_t rows,
    int64_t columns,
    int64_t from_pitch,
    uint16_t* y,
    int64_t pitch) {
  if (from_pitch == columns && pitch == columns) {  // one long row, which needs no division
    columns *= rows;
    pitch = columns;
    from_pitch = columns;
    rows = 1;
  }
  const bool are_fours = from_pitch % 4 == 0 && AreFoursAligned(x);
  const int64_t eights = pitch / kAtOnce;
  const int64_t all = rows * eights;
  if (all <= UINT32_MAX) {
    return ForEach(
        stream,
        all,
        RoundEight<uint32_t>{x, columns, from_pitch, are_fours, y, static_cast<uint32_t>(eights)});
  }
  return ForEach(stream, all, RoundEight<int64_t>{x, columns, from_pitch, are_fours, y, eights});
}

}  // namespace ps::kernels
