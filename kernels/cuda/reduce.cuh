#pragma once

#include <cuda_runtime.h>

namespace ps::kernels {

// Sums in a fixed order: the same values give the same bits.

constexpr unsigned kAllLanes = 0xffffffffU;

/// The sum over the warp, in every lane. All lanes call it.
template <typename T>
__device__ T WarpSum(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// The sum over a one-dimensional block of `threads`, a multiple of 32, in thread 0. All threads
/// call it; what they write to shared memory before it is visible behind it.
template <unsigned threads, typename T>
__device__ T BlockSum(T value) {
  __shared__ T of_warp[threads / 32];
  value = WarpSum(value);
  __syncthreads();  // an earlier call has been read
  if (threadIdx.x % 32 == 0) {
    of_warp[threadIdx.x / 32] = value;
  }
  __syncthreads();
  T sum = 0;
  if (threadIdx.x == 0) {
    for (const T part : of_warp) {
      sum += part;
    }
  }
  return sum;
}

}  // namespace ps::kernels
