#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "kernels/op_spec.h"

/// In front of a loop whose counter numbers registers; or of one that is unrolled in part.
#ifdef __CUDACC__
#define PS_UNROLL _Pragma("unroll")
#define PS_PRAGMA(text) _Pragma(#text)
#define PS_UNROLL_BY(count) PS_PRAGMA(unroll(count))
#else
#define PS_UNROLL
#define PS_UNROLL_BY(count) static_cast<void>(count);
#endif

namespace ps::kernels {

// How this folder starts kernels: always in a given stream, never for nothing to do.

constexpr unsigned kThreads = 256;
/// More blocks than any device runs at once; the threads go on with a stride.
constexpr int64_t kBlocksMax = 4096;

constexpr int64_t DivideUp(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Gives each block `shared_bytes` of BlockMemory().
template <typename... Parameters, typename... Arguments>
cudaError_t Launch(
    cudaStream_t stream,
    dim3 grid,
    dim3 block,
    size_t shared_bytes,
    void (*kernel)(Parameters...),
    Arguments&&... arguments) {
  constexpr size_t kUnasked = 48 << 10;  // that any kernel may have
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return cudaSuccess;
  }
  if (shared_bytes > kUnasked) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (error != cudaSuccess) {
      return error;
    }
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

template <typename... Parameters, typename... Arguments>
cudaError_t Launch(
    cudaStream_t stream,
    dim3 grid,
    dim3 block,
    void (*kernel)(Parameters...),
    Arguments&&... arguments) {
  return Launch(stream, grid, block, size_t{0}, kernel, std::forward<Arguments>(arguments)...);
}

/// The first of n elements that this thread of a one-dimensional grid does, and how far on the
/// next.
__device__ inline int64_t FirstElement() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ inline int64_t ElementStride() {
  return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

__device__ inline float Activated(Activation activation, float x) {
  return activation == Activation::kNone || x > 0 ? x : 0.0F;
}

template <typename Function>
__global__ void ForEachKernel(int64_t n, Function function) {
  for (int64_t i = FirstElement(); i < n; i += ElementStride()) {
    function(i);
  }
}

/// Calls function(i) on the device for i in [0, n), each once, in any order.
template <typename Function>
cudaError_t ForEach(cudaStream_t stream, int64_t n, Function function) {
  const int64_t blocks = DivideUp(n, kThreads) < kBlocksMax ? DivideUp(n, kThreads) : kBlocksMax;
  return Launch(
      stream,
      dim3(static_cast<unsigned>(blocks)),
      dim3(kThreads),
      &ForEachKernel<Function>,
      n,
      function);
}

}  // namespace ps::kernels
