#pragma once

#include <cmath>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/reduce.cuh"

// Attention by multiply-adds: of f32, and of rounded factors where a device has no tensor cores for
// them. A warp has kRows of a tile's rows: its lanes are the others' rows while scores are
// computed, and columns of a head while they are used.

namespace ps::kernels {

constexpr int kFmaOthers = 32;  // rows of the other side at a time, one a lane

/// Sizes for heads of up to `width` columns. Shared memory ends at 48 KiB.
template <int width>
struct FmaSizes {
  static constexpr int kRows = width > 64 ? 2 : 8;       // of a warp
  static constexpr int kTile = kAttentionWarps * kRows;  // at once
  static constexpr int kColumns = width / 32;            // of a lane
};

/// Calls run(first) for the tiles of a block of `rows` rows.
template <int width, int rows, typename Run>
__device__ void ForFmaTiles(const Place& place, const Run& run) {
  constexpr int kTile = FmaSizes<width>::kTile;
  static_assert(rows % kTile == 0);
  for (int64_t first = place.first; first < place.first + rows; first += kTile) {
    if (first < place.length) {
      __syncthreads();  // the tile before has been read
      run(first);
    }
  }
}

/// Copies rows [first, first + rows) to shared memory, rounded, with zeros where there are none.
template <Precision precision, int rows, int columns, int pitch>
__device__ void Load(
    const float* from, const HeadRows& at, int64_t first, float (&tile)[rows][pitch]) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * columns; i += kAttentionThreads) {
    const int row = i / columns;
    const int column = i % columns;
    tile[row][column] = Rounded<precision>(at.Value(from, first + row, column));
  }
}

/// out[i] = the product of row `first + i` of `rows` with row `lane` of `others`.
template <int width, int count, int n, int m>
__device__ void Products(
    const float (&rows)[n][width],
    const float (&others)[m][width + 1],
    int first,
    int lane,
    float (&out)[count]) {
  for (int i = 0; i < count; ++i) {
    out[i] = 0;
  }
  for (int column = 0; column < width; ++column) {
    const float other = others[lane][column];
    for (int i = 0; i < count; ++i) {
      out[i] += rows[first + i][column] * other;
    }
  }
}

/// sums[i][j] += sum over the lanes l of weights[i] of lane l, rounded, * others[l][lane + 32 j].
template <Precision precision, int count, int columns, int m, int pitch>
__device__ void Accumulate(
    const float (&weights)[count],
    const float (&others)[m][pitch],
    int lane,
    float (&sums)[count][columns]) {
  for (int other = 0; other < kFmaOthers; ++other) {
    float values[columns];
    for (int j = 0; j < columns; ++j) {
      values[j] = others[other][lane + 32 * j];
    }
    for (int i = 0; i < count; ++i) {
      const float weight = Rounded<precision>(__shfl_sync(kAllLanes, weights[i], other));
      for (int j = 0; j < columns; ++j) {
        sums[i][j] += weight * values[j];
      }
    }
  }
}

/// Writes a lane's columns of `count` rows, scaled.
template <int count, int columns>
__device__ void Store(
    const float (&sums)[count][columns],
    float scale,
    const HeadRows& at,
    int64_t first,
    int lane,
    float* to) {
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < columns; ++j) {
      if (first + i < at.count && lane + 32 * j < at.width) {
        to[at.begin + (first + i) * at.stride + lane + 32 * j] = scale * sums[i][j];
      }
    }
  }
}

__device__ inline float WarpMax(float value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

/// The forward pass of a tile of queries from `first` on.
template <int width, Precision precision>
__device__ void FmaForward(
    const AttentionShape& shape,
    const Place& place,
    int64_t first,
    const float* x,
    float* log_sums,
    float* y) {
  using S = FmaSizes<width>;
  __shared__ float queries[S::kTile][width];
  __shared__ float keys[kFmaOthers][width + 1];
  __shared__ float values[kFmaOthers][width + 1];
  const AttentionOptions& o = shape.options;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int own = static_cast<int>(threadIdx.x) / 32 * S::kRows;  // the warp's first row
  Load<precision, S::kTile, width>(x, place.InX(Part::kQueries), first, queries);
  float sums[S::kRows][S::kColumns] = {};
  float largest[S::kRows];
  float total[S::kRows] = {};
  for (float& value : largest) {
    value = -INFINITY;
  }
  const int64_t end = KeysEnd(o, first, S::kTile);
  for (int64_t key0 = 0; key0 < end; key0 += kFmaOthers) {
    __syncthreads();  // the tile before has been read
    Load<precision, kFmaOthers, width>(x, place.InX(Part::kKeys), key0, keys);
    Load<precision, kFmaOthers, width>(x, place.InX(Part::kValues), key0, values);
    __syncthreads();
    float p[S::kRows];
    Products(queries, keys, own, lane, p);
    for (int i = 0; i < S::kRows; ++i) {
      // Rows behind the last compute something too: their lanes are needed, their sums are not.
      const int64_t query = first + own + i;
      const bool is_visible = key0 + lane < o.length && (!o.causal || key0 + lane <= query);
      const float score = is_visible ? shape.scale * p[i] : -INFINITY;
      const float now = fmaxf(largest[i], WarpMax(score));
      const float correction = expf(largest[i] - now);
      p[i] = expf(score - now);
      largest[i] = now;
      total[i] = total[i] * correction + WarpSum(p[i]);
      for (float& sum : sums[i]) {
        sum *= correction;
      }
    }
    Accumulate<precision>(p, values, lane, sums);
  }
  for (int i = 0; i < S::kRows; ++i) {
    const int64_t query = first + own + i;
    for (float& sum : sums[i]) {
      sum /= total[i];
    }
    if (lane == 0 && query < o.length) {
      log_sums[place.OfRow(query)] = largest[i] + logf(total[i]);
    }
  }
  Store(sums, 1, place.InY(), first + own, lane, y);
}

/// Writes the gradients of a tile of queries.
template <int width, Precision precision>
__device__ void FmaQueryGradient(
    const AttentionShape& shape,
    const Place& place,
    int64_t first,
    const float* x,
    const float* log_sums,
    const float* deltas,
    const float* dy,
    float* dx) {
  using S = FmaSizes<width>;
  __shared__ float queries[S::kTile][width];
  __shared__ float gradients[S::kTile][width];
  __shared__ float keys[kFmaOthers][width + 1];
  __shared__ float values[kFmaOthers][width + 1];
  const AttentionOptions& o = shape.options;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int own = static_cast<int>(threadIdx.x) / 32 * S::kRows;
  Load<precision, S::kTile, width>(x, place.InX(Part::kQueries), first, queries);
  Load<precision, S::kTile, width>(dy, place.InY(), first, gradients);
  float sums[S::kRows][S::kColumns] = {};
  const int64_t end = KeysEnd(o, first, S::kTile);
  for (int64_t key0 = 0; key0 < end; key0 += kFmaOthers) {
    __syncthreads();
    Load<precision, kFmaOthers, width>(x, place.InX(Part::kKeys), key0, keys);
    Load<precision, kFmaOthers, width>(x, place.InX(Part::kValues), key0, values);
    __syncthreads();
    float p[S::kRows];
    float dp[S::kRows];
    Products(queries, keys, own, lane, p);
    Products(gradients, values, own, lane, dp);
    for (int i = 0; i < S::kRows; ++i) {
      const int64_t query = first + own + i;
      const int64_t at = place.OfRow(query);
      p[i] = IsVisible(o, query, key0 + lane)
                 ? expf(shape.scale * p[i] - log_sums[at]) * (dp[i] - deltas[at])
                 : 0.0F;
    }
    Accumulate<precision>(p, keys, lane, sums);
  }
  Store(sums, shape.scale, place.InX(Part::kQueries), first + own, lane, dx);
}

/// Writes the gradients of a tile of keys and of their values.
template <int width, Precision precision>
__device__ void FmaKeyGradient(
    const AttentionShape& shape,
    const Place& place,
    int64_t first,
    const float* x,
    const float* log_sums,
    const float* deltas,
    const float* dy,
    float* dx) {
  using S = FmaSizes<width>;
  __shared__ float keys[S::kTile][width];
  __shared__ float values[S::kTile][width];
  __shared__ float queries[kFmaOthers][width + 1];
  __shared__ float gradients[kFmaOthers][width + 1];
  const AttentionOptions& o = shape.options;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int own = static_cast<int>(threadIdx.x) / 32 * S::kRows;
  Load<precision, S::kTile, width>(x, place.InX(Part::kKeys), first, keys);
  Load<precision, S::kTile, width>(x, place.InX(Part::kValues), first, values);
  float key_sums[S::kRows][S::kColumns] = {};
  float value_sums[S::kRows][S::kColumns] = {};
  const int64_t begin = o.causal ? first / kFmaOthers * kFmaOthers : 0;
  for (int64_t query0 = begin; query0 < o.length; query0 += kFmaOthers) {
    __syncthreads();
    Load<precision, kFmaOthers, width>(x, place.InX(Part::kQueries), query0, queries);
    Load<precision, kFmaOthers, width>(dy, place.InY(), query0, gradients);
    __syncthreads();
    const int64_t query = query0 + lane;
    const int64_t at = place.OfRow(query);
    const float log_sum = query < o.length ? log_sums[at] : 0.0F;
    const float delta = query < o.length ? deltas[at] : 0.0F;
    float p[S::kRows];
    float dp[S::kRows];
    Products(keys, queries, own, lane, p);
    Products(values, gradients, own, lane, dp);
    for (int i = 0; i < S::kRows; ++i) {
      const bool is_visible = IsVisible(o, query, first + own + i);
      p[i] = is_visible ? expf(shape.scale * p[i] - log_sum) : 0.0F;
      dp[i] = is_visible ? p[i] * (dp[i] - delta) : 0.0F;
    }
    Accumulate<precision>(p, gradients, lane, value_sums);
    Accumulate<precision>(dp, queries, lane, key_sums);
  }
  const int64_t own_first = first + own;
  Store(key_sums, shape.scale, place.InX(Part::kKeys), own_first, lane, dx);
  Store(value_sums, 1, place.InX(Part::kValues), own_first, lane, dx);
}

}  // namespace ps::kernels
