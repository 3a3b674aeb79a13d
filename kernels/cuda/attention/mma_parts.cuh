#pragma once

#include <cmath>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/reduce.cuh"

// What attention on tensor cores is made of: tiles that are copied, products of a warp's rows with
// them, and weights.

namespace ps::kernels {

/// Sizes for heads of up to `width` columns. More strips spare loads of the other side, more rows
/// of the other side spare barriers; registers and kAttentionSharedMax end both.
template <int width>
struct MmaSizes {
  static constexpr int kStrips = width > 64 ? 1 : 2;  // of a warp, in the forward pass
  static constexpr int kKeys = width > 64 ? 32 : 64;  // at a time, there
  static constexpr int kQueryKeys = 32;               // for gradients of queries
  static constexpr int kKeyQueries = 32;              // for gradients of keys
  // Where sums take most registers, the own factors of gradients of keys stay in shared memory.
  static constexpr bool kAreKeysInRegisters = width <= 32;
  static constexpr int kForwardRows = 16 * kStrips * kAttentionWarps;
  static constexpr int kBackwardRows = 16 * kAttentionWarps;

  static constexpr size_t kForwardBytes = (kForwardRows + 4 * kKeys) * width * sizeof(uint16_t);
  static constexpr size_t kQueryBytes =
      (2 * kBackwardRows + 4 * kQueryKeys) * width * sizeof(uint16_t);
  static constexpr size_t kKeyBytes =
      (2 * kBackwardRows + 4 * kKeyQueries) * width * sizeof(uint16_t);
  static_assert(kForwardBytes <= kAttentionSharedMax && kQueryBytes <= kAttentionSharedMax);
  static_assert(kKeyBytes <= kAttentionSharedMax);
};

/// Rows of factors in shared memory.
template <int width>
using FactorTile = SwizzledTile<uint4, width / 8>;

/// What a thread copies of tiles of `rows` rows that follow each other, with zeros where there are
/// none.
template <int width, int rows>
class RowCopier {
 public:
  __device__ RowCopier(const uint16_t* from, const HeadRows& at, int first)
      : next_(at.Line(from, first + Row()) + 8 * Unit()),
        stride_(at.stride),
        end_(8 * Unit() < at.width ? at.count : 0) {}

  /// Begins to copy the next tile, whose first row is `first`.
  __device__ void Start(const FactorTile<width>& tile, int first) {
    PS_UNROLL
    for (int i = 0; i < kCount; ++i) {
      const int row = Row() + i * kStep;
      const uint16_t* const from = next_ + static_cast<int64_t>(i * kStep) * stride_;
      CopyAsync(tile.At(row, Unit()), from, first + row < end_);
    }
    next_ += static_cast<int64_t>(rows) * stride_;
  }

 private:
  static constexpr int kUnits = width / 8;
  static constexpr int kStep = kAttentionThreads / kUnits;
  static constexpr int kCount = rows / kStep;
  static_assert(rows % kStep == 0);

  __device__ static int Row() { return static_cast<int>(threadIdx.x / kUnits); }

  __device__ static int Unit() { return static_cast<int>(threadIdx.x % kUnits); }

  const uint16_t* next_;  // the thread's part of the next tile
  int stride_;
  int end_;  // of the rows that are there
};

/// Two kinds of rows of the other side, in tiles: two of each kind are there at a time.
template <int width, int rows>
class OtherRows {
 public:
  using Copier = RowCopier<width, rows>;

  __device__ OtherRows(
      std::byte* memory, const Copier& first, const Copier& second, int begin, int end)
      : memory_(reinterpret_cast<uint4*>(memory)),
        first_(first),
        second_(second),
        begin_(begin),
        end_(end) {}

  /// Begins to copy the first tiles, as a group. Requires: there are some.
  __device__ void Start() { Start(0, begin_); }

  /// Calls use(row, first, second) for the tiles of both kinds from each row on. All threads of the
  /// block call it, and use() contains no barrier.
  template <typename Use>
  __device__ void ForEach(const Use& use) {
    int now = 0;
    for (int row = begin_; row < end_; row += rows) {
      WaitForCopies<0>();
      __syncthreads();  // these tiles are there, and those before have been used
      if (row + rows < end_) {
        Start(1 - now, row + rows);
      }
      use(row, Tile(2 * now), Tile(2 * now + 1));
      now = 1 - now;
    }
  }

 private:
  __device__ FactorTile<width> Tile(int i) const { return {memory_ + i * rows * width / 8}; }

  __device__ void Start(int to, int row) {
    first_.Start(Tile(2 * to), row);
    second_.Start(Tile(2 * to + 1), row);
    CommitCopies();
  }

  uint4* const memory_;
  Copier first_;
  Copier second_;
  const int begin_;
  const int end_;
};

/// A warp's rows as factors of products along a head's columns, 16 columns a step.
template <int strips, int width, bool in_registers>
class OwnRows {
 public:
  static constexpr int kSteps = width / 16;
  static constexpr int kUnrolled = in_registers ? kSteps : 1;  // as registers are numbered

  __device__ OwnRows(const FactorTile<width>& tile, int row) : tile_(tile), row_(row) {
    if constexpr (in_registers) {
      PS_UNROLL
      for (int i = 0; i < strips * kSteps; ++i) {
        Load(i / kSteps, i % kSteps, factors_[i / kSteps][i % kSteps]);
      }
    }
  }

  __device__ void Get(int strip, int step, uint32_t (&a)[4]) const {
    if constexpr (in_registers) {
      PS_UNROLL
      for (int i = 0; i < 4; ++i) {
        a[i] = factors_[strip][step][i];
      }
    } else {
      Load(strip, step, a);
    }
  }

 private:
  __device__ void Load(int strip, int step, uint32_t (&a)[4]) const {
    LoadSquares<false, true>(tile_, row_ + 16 * strip, 16 * step, a);
  }

  FactorTile<width> tile_;
  int row_;
  uint32_t factors_[in_registers ? strips : 1][in_registers ? kSteps : 1][4];
};

/// Values of a warp's rows by rows of the other side, as factors of a product along the latter: 16
/// of them a step.
template <int strips, int count>
class Weights {
 public:
  static constexpr int kSteps = count / 2;
  static constexpr int kUnrolled = kSteps;

  __device__ explicit Weights(const float (&values)[strips][count][4]) {
    PS_UNROLL
    for (int i = 0; i < strips * 2 * count; ++i) {
      const int strip = i / (2 * count);
      const int at = i % (2 * count);
      const float(&two)[4] = values[strip][at / 4 * 2 + at % 4 / 2];
      factors_[strip][at / 4][at % 4] = ToBf16Pair(two[at % 2 * 2], two[at % 2 * 2 + 1]);
    }
  }

  __device__ void Get(int strip, int step, uint32_t (&a)[4]) const {
    PS_UNROLL
    for (int i = 0; i < 4; ++i) {
      a[i] = factors_[strip][step][i];
    }
  }

 private:
  uint32_t factors_[strips][kSteps][4];
};

/// sums[s][j] += a's strip s times lines 8 j to 8 j + 7 of the tile: its rows, with the depth along
/// them, or its columns, if it is transposed.
template <bool is_transposed, typename A, int units, int strips, int count>
__device__ void Multiply(
    const A& a, const SwizzledTile<uint4, units>& tile, float (&sums)[strips][count][4]) {
  PS_UNROLL_BY(A::kUnrolled)
  for (int step = 0; step < A::kSteps; ++step) {
    uint32_t of_a[strips][4];
    PS_UNROLL
    for (int strip = 0; strip < strips; ++strip) {
      a.Get(strip, step, of_a[strip]);
    }
    PS_UNROLL
    for (int j = 0; j < count; j += 2) {
      uint32_t b[4];  // of two times eight lines
      LoadSquares<is_transposed, false>(tile, 8 * j, 16 * step, b);
      PS_UNROLL
      for (int strip = 0; strip < strips; ++strip) {
        MmaBf16(sums[strip][j], of_a[strip], {b[0], b[1]});
        MmaBf16(sums[strip][j + 1], of_a[strip], {b[2], b[3]});
      }
    }
  }
}

/// Writes the 16 rows from `first` on, of which a row's values are scaled as one.
template <int count>
__device__ void StoreStrip(
    const float (&sums)[count][4],
    const float (&scales)[2],
    const HeadRows& at,
    int first,
    float* to) {
  const bool are_pairs = at.AreAligned(to, 2);
  PS_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = first + LaneGroup() + 8 * half;
    float* const line = at.Line(to, row);
    PS_UNROLL
    for (int j = 0; j < count; ++j) {
      const int column = 8 * j + 2 * LaneMember();
      const float values[2] = {
          scales[half] * sums[j][2 * half], scales[half] * sums[j][2 * half + 1]};
      if (row >= at.count || column >= at.width) {
        continue;
      }
      if (are_pairs) {
        *reinterpret_cast<float2*>(line + column) = {values[0], values[1]};
      } else {
        line[column] = values[0];
        if (column + 1 < at.width) {
          line[column + 1] = values[1];
        }
      }
    }
  }
}

/// 2 to x, and 0 where that is less than any normal number.
__device__ inline float FastExp2(float x) {
#ifdef __CUDA_ARCH__
  float y = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

/// Over the four lanes of a row.
__device__ inline float RowMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}

__device__ inline float RowSum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

/// What is known of a row while its sums grow.
struct RowSoFar {
  float largest = -INFINITY;  // of its scores
  float total = 0;            // of the lane's weights
};

/// Makes weights of the scores of one of the lane's two rows of a strip. Returns what the sums so
/// far are to be multiplied by.
template <int count>
__device__ float MakeWeights(
    float binary_scale, int half, RowSoFar* row, float (&scores)[count][4]) {
  float now = row->largest;
  PS_UNROLL
  for (int i = 0; i < 2 * count; ++i) {
    now = fmaxf(now, scores[i / 2][2 * half + i % 2]);
  }
  now = RowMax(now);
  const float offset = binary_scale * now;
  float sum = 0;
  PS_UNROLL
  for (int i = 0; i < 2 * count; ++i) {
    float& score = scores[i / 2][2 * half + i % 2];
    score = FastExp2(binary_scale * score - offset);
    sum += score;
  }
  const float correction = FastExp2(binary_scale * row->largest - offset);
  row->total = row->total * correction + sum;
  row->largest = now;
  return correction;
}

}  // namespace ps::kernels
