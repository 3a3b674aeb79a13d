#pragma once

#include <cmath>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/reduce.cuh"

// What attention by multiply-adds is made of: tiles in shared memory, products of a lane's rows
// with them, and weights.

namespace ps::kernels {

constexpr int kFmaAcross = 8;

/// Sizes for heads of up to `width` columns. More rows of a lane spare loads from shared memory.
template <int width, int each>
struct FmaSizes {
  static constexpr int kEach = each;
  static constexpr int kWarpRows = 4 * each;
  static constexpr int kTile = kAttentionWarps * kWarpRows;  // rows at once
  static constexpr int kOthers = width > 64 ? 16 : 32;       // of the other side at a time
  static constexpr int kOthersEach = kOthers / kFmaAcross;   // of a lane
  static constexpr int kColumns = width / kFmaAcross;        // of a lane
  static constexpr size_t kWeightBytes = kTile * kOthers * sizeof(float);
  static constexpr size_t kForwardBytes =
      (kTile + 2 * kOthers) * width * sizeof(float) + kWeightBytes;
  static constexpr size_t kBackwardBytes =
      2 * (kTile + kOthers) * width * sizeof(float) + kWeightBytes;
};

/// What registers and kAttentionSharedMax suffice for. In bf16 they are not to take more memory
/// than tensor cores do, since both ways are launched as one.
template <int width, Precision precision>
using FmaForwardSizes = FmaSizes<
    width,
    (precision == Precision::kBf16 ? 2
     : width > 64                  ? 4
                                   : 8)>;
template <int width, Precision precision>
using FmaBackwardSizes = FmaSizes<width, (precision == Precision::kBf16 || width > 64 ? 2 : 4)>;

/// Rows of `columns` values in shared memory.
template <int columns>
using FmaTile = SwizzledTile<float4, columns / 4>;

/// Calls run(first) for the tiles of a block of `rows` rows.
template <typename Sizes, int rows, typename Run>
__device__ void ForFmaTiles(const Place& place, const Run& run) {
  constexpr int kTile = Sizes::kTile;
  static_assert(rows % kTile == 0);
  for (int first = place.first; first < place.first + rows; first += kTile) {
    if (first < place.length) {
      __syncthreads();  // the tile before has been read
      run(first);
    }
  }
}

/// The tiles of a block one after the other in its shared memory.
class FmaMemory {
 public:
  template <int columns>
  __device__ FmaTile<columns> Take(int rows) {
    const FmaTile<columns> tile{next_};
    next_ += rows * (columns / 4);
    return tile;
  }

 private:
  float4* next_ = reinterpret_cast<float4*>(BlockMemory());
};

/// Four factors, 0 where there are none.
__device__ inline float4 LoadFour(const float* line, int column, int width, bool are_aligned) {
  if (are_aligned) {
    return column < width ? *reinterpret_cast<const float4*>(line + column) : float4{};
  }
  return {
      column < width ? line[column] : 0.0F,
      column + 1 < width ? line[column + 1] : 0.0F,
      column + 2 < width ? line[column + 2] : 0.0F,
      column + 3 < width ? line[column + 3] : 0.0F};
}

__device__ inline float4 LoadFour(
    const uint16_t* line, int column, int width, bool /*are_aligned*/) {
  const auto value = [](unsigned bits) { return __uint_as_float(bits); };
  if (column >= width) {
    return {};
  }
  const uint2 two = *reinterpret_cast<const uint2*>(line + column);
  return {
      value(two.x << 16U),
      value(two.x & 0xffff0000U),
      value(two.y << 16U),
      value(two.y & 0xffff0000U)};
}

/// Copies rows [first, first + rows) to shared memory, with zeros where there are none.
template <int rows, int width, typename Factor>
__device__ void LoadRows(
    const Factor* from, const HeadRows& at, int first, const FmaTile<width>& tile) {
  constexpr int kFours = width / 4;
  constexpr int kStep = kAttentionThreads / kFours;
  static_assert(rows % kStep == 0);
  const bool are_aligned =
      std::is_same_v<Factor, uint16_t> || at.AreAligned(reinterpret_cast<const float*>(from), 4);
  const int four = static_cast<int>(threadIdx.x) % kFours;
  const int row0 = static_cast<int>(threadIdx.x) / kFours;
  const Factor* line = at.Line(from, first + row0);
  PS_UNROLL_BY(4)
  for (int row = row0; row < rows; row += kStep) {
    *tile.At(row, four) =
        first + row < at.count ? LoadFour(line, 4 * four, at.width, are_aligned) : float4{};
    line += static_cast<int64_t>(kStep) * at.stride;
  }
}

/// Where a lane is in its warp, and the warp's first row in a tile.
template <int each>
struct FmaLane {
  int across = static_cast<int>(threadIdx.x % kFmaAcross);
  int down = static_cast<int>(threadIdx.x % 32 / kFmaAcross);
  int warp_row = static_cast<int>(threadIdx.x / 32) * 4 * each;

  /// The lane's i-th row in the tile.
  __device__ int Row(int i) const { return warp_row + 4 * i + down; }

  /// Its j-th row of the other side.
  __device__ int Other(int j) const { return kFmaAcross * j + across; }

  /// The first of its j-th four columns.
  __device__ int Column(int j) const { return 4 * (kFmaAcross * j + across); }
};

__device__ inline void AddFours(const float4& a, const float4& b, float* sum) {
  *sum += a.x * b.x;
  *sum += a.y * b.y;
  *sum += a.z * b.z;
  *sum += a.w * b.w;
}

__device__ inline void AddScaled(float weight, const float4& v, float* sums) {
  sums[0] += weight * v.x;
  sums[1] += weight * v.y;
  sums[2] += weight * v.z;
  sums[3] += weight * v.w;
}

/// products[i][j] = the lane's i-th row times its j-th row of the other side.
template <int each, int units, int others>
__device__ void Products(
    const FmaLane<each>& lane,
    const SwizzledTile<float4, units>& own_tile,
    const SwizzledTile<float4, units>& other_tile,
    float (&products)[each][others]) {
  PS_UNROLL
  for (int i = 0; i < each * others; ++i) {
    products[i / others][i % others] = 0;
  }
  PS_UNROLL_BY(1)
  for (int four = 0; four < units; ++four) {
    float4 other[others];
    PS_UNROLL
    for (int j = 0; j < others; ++j) {
      other[j] = *other_tile.At(lane.Other(j), four);
    }
    PS_UNROLL
    for (int i = 0; i < each; ++i) {
      const float4 own = *own_tile.At(lane.Row(i), four);
      PS_UNROLL
      for (int j = 0; j < others; ++j) {
        AddFours(own, other[j], &products[i][j]);
      }
    }
  }
}

/// Puts weights, rounded, where their warp finds them. All of its lanes call it.
template <Precision precision, int each, int others, int units>
__device__ void PutWeights(
    const FmaLane<each>& lane,
    const float (&weights)[each][others],
    const SwizzledTile<float4, units>& tile) {
  __syncwarp();  // those before have been read
  PS_UNROLL
  for (int i = 0; i < each; ++i) {
    PS_UNROLL
    for (int j = 0; j < others; ++j) {
      const int other = lane.Other(j);
      auto* const four = reinterpret_cast<float*>(tile.At(lane.Row(i), other / 4));
      four[other % 4] = Rounded<precision>(weights[i][j]);
    }
  }
  __syncwarp();
}

/// sums[i][j] += the weights of the lane's i-th row times its j-th column of the other side.
template <int each, int others, int units, int columns>
__device__ void Accumulate(
    const FmaLane<each>& lane,
    const SwizzledTile<float4, others>& weight_tile,
    const SwizzledTile<float4, units>& other_tile,
    float (&sums)[each][columns]) {
  PS_UNROLL_BY(1)
  for (int four = 0; four < others; ++four) {
    float4 weights[each];
    PS_UNROLL
    for (int i = 0; i < each; ++i) {
      weights[i] = *weight_tile.At(lane.Row(i), four);
    }
    PS_UNROLL
    for (int k = 0; k < 4; ++k) {
      PS_UNROLL
      for (int j = 0; j < columns / 4; ++j) {
        const float4 v = *other_tile.At(4 * four + k, lane.Column(j) / 4);
        PS_UNROLL
        for (int i = 0; i < each; ++i) {
          const float4& w = weights[i];
          AddScaled(k == 0 ? w.x : k == 1 ? w.y : k == 2 ? w.z : w.w, v, &sums[i][4 * j]);
        }
      }
    }
  }
}

/// Writes the lane's columns of its rows of the tile from `first` on, each row scaled.
template <int each, int columns>
__device__ void Store(
    const FmaLane<each>& lane,
    const float (&sums)[each][columns],
    const float (&scales)[each],
    const HeadRows& at,
    int first,
    float* to) {
  const bool are_aligned = at.AreAligned(to, 4);
  PS_UNROLL
  for (int i = 0; i < each; ++i) {
    const int row = first + lane.Row(i);
    float* const line = at.Line(to, row);
    PS_UNROLL
    for (int j = 0; j < columns; j += 4) {
      const int column = lane.Column(j / 4);
      if (row >= at.count || column >= at.width) {
        continue;
      }
      const float4 four = {
          scales[i] * sums[i][j],
          scales[i] * sums[i][j + 1],
          scales[i] * sums[i][j + 2],
          scales[i] * sums[i][j + 3]};
      if (are_aligned) {
        *reinterpret_cast<float4*>(line + column) = four;
        continue;
      }
      const float values[4] = {four.x, four.y, four.z, four.w};
      for (int k = 0; k < 4 && column + k < at.width; ++k) {
        line[column + k] = values[k];
      }
    }
  }
}

/// Over the lanes of a row.
__device__ inline float MaxAcross(float value) {
  for (int distance = kFmaAcross / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

__device__ inline float SumAcross(float value) {
  for (int distance = kFmaAcross / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// One scale for all of a lane's rows.
template <int each>
struct SameScales {
  __device__ explicit SameScales(float scale) {
    for (float& value : values) {
      value = scale;
    }
  }

  float values[each];
};

}  // namespace ps::kernels
