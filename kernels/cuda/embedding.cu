#include <cmath>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace ps::kernels {
namespace {

/// The number of the token, or -1 for what is none.
__device__ int64_t TokenOf(float x, int64_t vocabulary) {
  return x >= 0 && x < static_cast<float>(vocabulary) ? static_cast<int64_t>(x) : -1;
}

struct EmbeddingElement {
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / options.width;
    const int64_t j = i % options.width;
    const int64_t token = TokenOf(x[row], options.vocabulary);
    const float position =
        positions == nullptr ? 0.0F : positions[row % options.length * options.width + j];
    y[i] = token < 0 ? NAN : tokens[token * options.width + j] + position;
  }

  EmbeddingOptions options;
  const float* x;
  const float* tokens;
  const float* positions;
  float* y;
};

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

/// A block has `tokens_of_block` rows of the table and looks through all of x for them. A thread
/// has a column of those rows, so each sum is in the order of x and needs no atomics.
__global__ void TokenGradientKernel(
    EmbeddingOptions options,
    int64_t rows,
    int64_t tokens_of_block,
    const float* __restrict__ x,
    const float* __restrict__ dy,
    float* gradient) {
  __shared__ int64_t tokens[kThreads];  // of some rows, counted from the block's first; or -1
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * tokens_of_block;
  const int64_t left = options.vocabulary - begin;
  const int64_t count = left < tokens_of_block ? left : tokens_of_block;
  const int64_t j = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  float* sums = gradient + begin * options.width + j;
  for (int64_t i = 0; i < count && j < options.width; ++i) {
    sums[i * options.width] = 0;
  }
  for (int64_t row0 = 0; row0 < rows; row0 += kThreads) {
    const int64_t of_chunk = rows - row0 < kThreads ? rows - row0 : kThreads;
    __syncthreads();  // the tokens before have been read
    if (threadIdx.x < of_chunk) {
      const int64_t token = TokenOf(x[row0 + threadIdx.x], options.vocabulary) - begin;
      tokens[threadIdx.x] = token >= 0 && token < count ? token : -1;
    }
    __syncthreads();
    for (int64_t i = 0; i < of_chunk; ++i) {
      if (tokens[i] >= 0 && j < options.width) {
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
  return ForEach(
      stream,
      n * options.length * options.width,
      EmbeddingElement{options, x, tokens, positions, y});
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
