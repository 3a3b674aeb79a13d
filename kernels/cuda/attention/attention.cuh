#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/shared_memory.cuh"

// Attention without a matrix of scores in memory, after FlashAttention (Dao et al., 2022 and 2023):
// scores of a tile are computed from queries and keys, used, and forgotten. Of each row the binary
// logarithm of its sum is kept, and the backward pass computes scores again from it:
//
//   forward   s = q k',  p = exp2(s log2(e) / sqrt(w) - log_sum),  y = p v
//   backward  dv = p' dy,  dp = dy v',  ds = p * (dp - delta),  delta = sum of y * dy
//             dq = ds k / sqrt(w),  dk = ds' q / sqrt(w)
//
// A block has a tile of rows, and goes through the others some at a time: causal, only through
// those that have a visible pair, and only tiles on the diagonal or at the end are masked. Each sum
// has one owner and a fixed order. There are two ways: by multiply-adds, and for bf16 by tensor
// cores.
//
// Factors are read from x, y and their gradients, or, for bf16, from copies whose heads begin at
// multiples of eight values: for heads that do so anyway, an array of bf16 as x has it.

namespace ps::kernels {

constexpr int kAttentionWarps = 4;
constexpr int kAttentionThreads = 32 * kAttentionWarps;
/// What a block may have on a device of compute capability 7.5. The host does not know which code a
/// device has, so every block keeps to it.
constexpr size_t kAttentionSharedMax = 64 << 10;

template <Precision precision>
using AttentionFactor = std::conditional_t<precision == Precision::kBf16, uint16_t, float>;

/// Columns from a head to the next among factors.
constexpr int64_t FactorPitch(Precision precision, int64_t head_width) {
  return precision == Precision::kBf16 ? DivideUp(head_width, 8) * 8 : head_width;
}

/// Rows of a head in what has a value for each: pairs of them can be loaded at once.
constexpr int64_t RowPitch(int64_t length) {
  return DivideUp(length, 4) * 4;
}

/// Where the rows of one head lie, `stride` values apart.
struct HeadRows {
  int64_t begin;
  int stride;
  int count;
  int width;  // of the head

  template <typename T>
  __device__ T* Line(T* values, int row) const {
    return values + begin + static_cast<int64_t>(row) * stride;
  }

  /// Whether so many columns from a multiple of `each` on lie where they can be accessed at once.
  __device__ bool AreAligned(const float* values, int each) const {
    return width % each == 0 && begin % each == 0 && stride % each == 0 &&
           reinterpret_cast<uintptr_t>(values) % (static_cast<unsigned>(each) * sizeof(float)) == 0;
  }
};

/// The columns of x, and of its gradient.
enum class Part : uint8_t { kQueries, kKeys, kValues };
constexpr int kParts = 3;

/// Which tile of a head's rows comes first: the one that has most to do in a causal attention.
enum class FirstTile : uint8_t { kFirst, kLast };

/// Which head of which sample a block works on, and on which tile of its rows.
class Place {
 public:
  __device__ Place(const AttentionShape& shape, int tiles, int tile_rows, FirstTile first_tile)
      : length(static_cast<int>(shape.options.length)),
        is_causal(shape.options.causal),
        heads(static_cast<int>(shape.options.heads)),
        head_width(static_cast<int>(shape.head_width)),
        factor_pitch(static_cast<int>(FactorPitch(shape.options.precision, head_width))),
        head(static_cast<int>(blockIdx.x) / tiles),
        first(
            (first_tile == FirstTile::kFirst ? static_cast<int>(blockIdx.x) % tiles
                                             : tiles - 1 - static_cast<int>(blockIdx.x) % tiles) *
            tile_rows) {}

  /// Factors, in x or in dy.
  __device__ HeadRows FactorsInX(Part part) const { return Rows(kParts, part, factor_pitch); }

  __device__ HeadRows FactorsInDy() const { return Rows(1, Part{}, factor_pitch); }

  /// Results.
  __device__ HeadRows InDx(Part part) const { return Rows(kParts, part, head_width); }

  __device__ HeadRows InY() const { return Rows(1, Part{}, head_width); }

  /// In what has a value for each row of each head.
  __device__ int64_t OfRow(int row) const { return head * RowPitch(length) + row; }

  /// Whether a query looks at a key, both of them there.
  __device__ bool IsVisible(int query, int key) const {
    return query < length && key < length && (!is_causal || key <= query);
  }

  /// Behind which key no query of rows [query0, query0 + queries) looks.
  __device__ int KeysEnd(int query0, int queries) const {
    return is_causal && query0 + queries < length ? query0 + queries : length;
  }

  /// Whether queries from query0 on, if they are there, look at all of these keys.
  __device__ bool AreKeysVisible(int query0, int key0, int keys) const {
    return key0 + keys <= length && (!is_causal || key0 + keys - 1 <= query0);
  }

  /// Whether all of these queries look at these keys, if they are there.
  __device__ bool AreQueriesVisible(int query0, int queries, int key0, int keys) const {
    return query0 + queries <= length && (!is_causal || key0 + keys - 1 <= query0);
  }

  const int length;
  const bool is_causal;
  const int heads;
  const int head_width;
  const int factor_pitch;
  const int head;  // counted over the samples
  const int first;

 private:
  __device__ HeadRows Rows(int parts, Part part, int pitch) const {
    const int stride = parts * heads * pitch;
    const int64_t begin = static_cast<int64_t>(head / heads) * length * stride +
                          (static_cast<int>(part) * heads + head % heads) * pitch;
    return {begin, stride, length, pitch};
  }
};

/// What makes exponents of 2 of scores.
__device__ inline float BinaryScale(const AttentionShape& shape) {
  constexpr float kLog2E = 1.44269504F;
  return kLog2E * shape.scale;
}

}  // namespace ps::kernels
