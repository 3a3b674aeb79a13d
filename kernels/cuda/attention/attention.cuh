#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/kernels.h"

// Attention without a matrix of scores in memory, after FlashAttention (Dao et al., 2022): scores
// of a tile are computed from queries and keys, used, and forgotten. Of each row the logarithm of
// its sum is kept, and the backward pass computes scores again from it:
//
//   forward   s = q k' / sqrt(w),  p = exp(s - log_sum),  y = p v
//   backward  dv = p' dy,  dp = dy v',  ds = p * (dp - delta),  delta = sum of y * dy
//             dq = ds k / sqrt(w),  dk = ds' q / sqrt(w)
//
// A block has a tile of rows, and goes through the others some at a time. Each sum has one owner
// and a fixed order. There are two ways: by multiply-adds, and for bf16 by tensor cores.

namespace ps::kernels {

constexpr int kAttentionWarps = 4;
constexpr int kAttentionThreads = 32 * kAttentionWarps;

/// Where the rows of one head lie in x or y, `stride` floats apart.
struct HeadRows {
  int64_t begin;
  int64_t stride;
  int64_t count;
  int width;  // of the head

  /// 0 where there is none.
  __device__ float Value(const float* from, int64_t row, int column) const {
    return row < count && column < width ? from[begin + row * stride + column] : 0.0F;
  }
};

enum class Part : uint8_t { kQueries, kKeys, kValues };

/// Which head of which sample a block works on, and on which tile of its rows. The last tile comes
/// first: with a causal attention it is the longest.
struct Place {
  __device__ Place(const AttentionShape& shape, int64_t tiles, int tile_rows)
      : length(shape.options.length),
        width(shape.options.width),
        head_width(static_cast<int>(shape.head_width)),
        head(blockIdx.x / tiles),
        first((tiles - 1 - blockIdx.x % tiles) * tile_rows),
        sample(head / shape.options.heads),
        column(head % shape.options.heads * head_width) {}

  __device__ HeadRows InX(Part part) const {
    const int64_t stride = 3 * width;
    const int64_t begin = sample * length * stride + static_cast<int64_t>(part) * width + column;
    return {begin, stride, length, head_width};
  }

  __device__ HeadRows InY() const {
    return {sample * length * width + column, width, length, head_width};
  }

  /// In what has a value for each row of each head.
  __device__ int64_t OfRow(int64_t row) const { return head * length + row; }

  const int64_t length;
  const int64_t width;  // of y
  const int head_width;
  const int64_t head;  // counted over the samples
  const int64_t first;
  const int64_t sample;
  const int64_t column;  // of the head in a row of y
};

/// Whether a query looks at a key, both of them there.
__device__ inline bool IsVisible(const AttentionOptions& o, int64_t query, int64_t key) {
  return query < o.length && key < o.length && (!o.causal || key <= query);
}

/// Behind which key no query of rows [first, first + rows) looks.
__device__ inline int64_t KeysEnd(const AttentionOptions& o, int64_t first, int64_t rows) {
  return o.causal && first + rows < o.length ? first + rows : o.length;
}

}  // namespace ps::kernels
