#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cuda/device/divide.cuh"
#include "kernels/cuda/device/vectors.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

/// The number of the token, or -1 for what is none.
__device__ int64_t TokenOf(float x, int64_t vocabulary) {
  return x >= 0 && x < static_cast<float>(vocabulary) ? static_cast<int64_t>(x) : -1;
}

/// Some columns of a token.
template <int width, typename Divisor>
struct EmbeddingElements {
  __device__ void operator()(int64_t i) const {
    const auto [row, group] = groups.Divide(static_cast<typename Divisor::Index>(i));
    const int64_t j = static_cast<int64_t>(group) * width;
    const int64_t token = TokenOf(x[row], options.vocabulary);
    SideBySide<float, width> values;
    if (token < 0) {
      PS_UNROLL
      for (int k = 0; k < width; ++k) {
        values.of[k] = NAN;
      }
    } else {
      values = LoadVector<width>(tokens + token * options.width + j);
      SideBySide<float, width> of_position{};
      if (positions != nullptr) {
        const auto at = static_cast<int64_t>(length.Divide(row).rest);
        of_position = LoadVector<width>(positions + at * options.width + j);
      }
      PS_UNROLL
      for (int k = 0; k < width; ++k) {
        values.of[k] += of_position.of[k];
      }
    }
    StoreVector(values, y + i * width);
  }

  EmbeddingOptions options;
  Divisor groups;
  Divisor length;
  const float* x;
  const float* tokens;
  const float* positions;
  float* y;
};

/// The number of the lowest bit that is set.
__device__ int LowestBit(unsigned bits) {
#ifdef __CUDA_ARCH__
  return __ffs(static_cast<int>(bits)) - 1;
#else
  return std::countr_zero(bits);
#endif
}

/// Sums over the samples, one after the other.
struct PositionGradient {
  __device__ void operator()(int64_t i) const {
    const int64_t at = i / options.width;
    float sum = 0;
    for (int64_t sample = 0; sample < n; ++sample) {
      const bool is_token = TokenOf(x[sample * options.length + at], options.vocabulary) >= 0;
      sum += is_token ? dy[sample * options.length * options.width + i] : 0.0F;
    }
    gradient[i] = sum;
  }

  EmbeddingOptions options;
  int64_t n;
  const float* x;
  const float* dy;
  float* gradient;
};

/// A block has `tokens_of_block` rows of the table and looks through all of x for them, so many
/// tokens at a time as it has threads, which vote. A thread has a column of those rows, so each sum
/// is in the order of x and needs no atomics.
__global__ void __launch_bounds__(kThreads) TokenGradientKernel(
    EmbeddingOptions options,
    int64_t rows,
    int64_t tokens_of_block,
    const float* __restrict__ x,
    const float* __restrict__ dy,
    float* gradient) {
  __shared__ int tokens[kThreads];           // counted from the block's first
  __shared__ unsigned votes[kThreads / 32];  // which of them the block has, by warp
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * tokens_of_block;
  const int64_t left = options.vocabulary - begin;
  const int64_t count = left < tokens_of_block ? left : tokens_of_block;
  const int64_t j = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  float* sums = gradient + begin * options.width + j;
  for (int64_t i = 0; i < count && j < options.width; ++i) {
    sums[i * options.width] = 0;
  }
  for (int64_t row0 = 0; row0 < rows; row0 += kThreads) {
    const int64_t own = row0 + threadIdx.x;
    const int64_t token = own < rows ? TokenOf(x[own], options.vocabulary) - begin : -1;
    __syncthreads();  // the tokens before have been read
    tokens[threadIdx.x] = static_cast<int>(token);
    const unsigned found = __ballot_sync(kAllLanes, token >= 0 && token < count);
    if (threadIdx.x % 32 == 0) {
      votes[threadIdx.x / 32] = found;
    }
    __syncthreads();
    for (unsigned warp = 0; warp < kThreads / 32 && j < options.width; ++warp) {
      for (unsigned waiting = votes[warp]; waiting != 0; waiting &= waiting - 1) {
        const int i = static_cast<int>(warp) * 32 + LowestBit(waiting);
        sums[tokens[i] * options.width] += dy[(row0 + i) * options.width + j];
      }
    }
  }
}

}  // namespace

cudaError_t EmbeddingForward(
    cudaStream_t stream,
    const EmbeddingOptions& options,
    int64_t n,
    const float* x,
    const float* tokens,
    const float* positions,
    float* y) {
  const int64_t elements = n * options.length * options.width;
  const auto run = [&]<int width, typename Divisor>() {
    return ForEach(
        stream,
        elements / width,
        EmbeddingElements<width, Divisor>{
            options,
            Divisor(options.width / width),
            Divisor(options.length),
            x,
            tokens,
            positions,
            y});
  };
  return WithDivisor(std::max(elements, options.length), [&]<typename Divisor>() {
    return AreFours(options.width, tokens, positions, y) ? run.operator()<4, Divisor>()
                                                         : run.operator()<1, Divisor>();
  });
}

cudaError_t EmbeddingBackward(
    cudaStream_t stream,
    const EmbeddingOptions& options,
    int64_t n,
    const float* x,
    const float* dy,
    float* dtokens,
    float* dpositions) {
  constexpr int64_t kTokensOfBlockMax = 64;
  constexpr int64_t kBlocksWanted = 512;  // before a block has more than one row
  const int64_t share = DivideUp(options.vocabulary, kBlocksWanted);
  const int64_t tokens_of_block = share < kTokensOfBlockMax ? share : kTokensOfBlockMax;
  const dim3 grid(
      static_cast<unsigned>(DivideUp(options.vocabulary, tokens_of_block)),
      static_cast<unsigned>(DivideUp(options.width, kThreads)));
  const cudaError_t error = Launch(
      stream,
      grid,
      dim3(kThreads),
      &TokenGradientKernel,
      options,
      n * options.length,
      tokens_of_block,
      x,
      dy,
      dtokens);
  return error == cudaSuccess && dpositions != nullptr
             ? ForEach(
                   stream,
                   options.length * options.width,
                   PositionGradient{options, n, x, dy, dpositions})
             : error;
}

}  // namespace ps::kernels
