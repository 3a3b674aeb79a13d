#pragma once

#include <cmath>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/reduce.cuh"

// Attention on tensor cores, of factors that are rounded to bf16. A warp has 16 rows of a tile,
// whose factors stay in its registers. What one product has written is a factor of the next, and
// lies in the lanes as it is to: scores never leave the registers either. A lane has values of two
// rows, LaneGroup() and the eighth behind it, and four lanes have a row.

namespace ps::kernels {

constexpr int kMmaTile = 16 * kAttentionWarps;  // rows of a block

/// Rows of the other side at a time. Shared memory ends at 48 KiB, and registers at 255.
template <int width>
constexpr int kMmaOthers = width > 64 ? 16 : 32;

/// Rows of the other side as factors of a product along a head's columns, or along the rows. With
/// four words more than it needs, the lanes of a fragment meet different banks.
template <int width>
using PairsOfColumns = uint32_t[kMmaOthers<width>][width / 2 + 4];
template <int width>
using PairsOfRows = uint32_t[width][kMmaOthers<width> / 2 + 4];

/// Calls use(row, column, values) for squares of rows and columns, which all are from `first` on.
template <int width, typename Use>
__device__ void ForSquares(const float* from, const HeadRows& at, int64_t first, const Use& use) {
  constexpr int kColumns = width / 2;
  for (int i = static_cast<int>(threadIdx.x); i < kMmaOthers<width> / 2 * kColumns;
       i += kAttentionThreads) {
    const int row = i / kColumns * 2;
    const int column = i % kColumns * 2;
    const float values[2][2] = {
        {at.Value(from, first + row, column), at.Value(from, first + row, column + 1)},
        {at.Value(from, first + row + 1, column), at.Value(from, first + row + 1, column + 1)}};
    use(row, column, values);
  }
}

template <int n, int pitch>
__device__ void PutColumns(
    uint32_t (&tile)[n][pitch], int row, int column, const float (&values)[2][2]) {
  tile[row][column / 2] = ToBf16Pair(values[0][0], values[0][1]);
  tile[row + 1][column / 2] = ToBf16Pair(values[1][0], values[1][1]);
}

template <int n, int pitch>
__device__ void PutRows(
    uint32_t (&tile)[n][pitch], int row, int column, const float (&values)[2][2]) {
  tile[column][row / 2] = ToBf16Pair(values[0][0], values[1][0]);
  tile[column + 1][row / 2] = ToBf16Pair(values[0][1], values[1][1]);
}

/// The 16 rows from `first` on as factors of products along a head's columns.
template <int steps>
__device__ void LoadOwn(
    const float* from, const HeadRows& at, int64_t first, uint32_t (&factors)[steps][4]) {
  PS_UNROLL
  for (int step = 0; step < steps; ++step) {
    PS_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int64_t row = first + LaneGroup() + i % 2 * 8;
      const int column = 16 * step + 2 * LaneMember() + i / 2 * 8;
      factors[step][i] = ToBf16Pair(at.Value(from, row, column), at.Value(from, row, column + 1));
    }
  }
}

/// sums[j] += the own rows times the tile's rows from 8 j on, which have the depth in pairs.
template <int steps, int count, int n, int pitch>
__device__ void MultiplyOwn(
    const uint32_t (&factors)[steps][4],
    const uint32_t (&tile)[n][pitch],
    float (&sums)[count][4]) {
  static_assert(n == 8 * count && pitch >= 8 * steps);
  PS_UNROLL
  for (int step = 0; step < steps; ++step) {
    PS_UNROLL
    for (int j = 0; j < count; ++j) {
      uint32_t b[2];
      LoadFragmentB(tile, 8 * j, 8 * step, b);
      MmaBf16(sums[j], factors[step], b);
    }
  }
}

/// Values of own rows by rows of the other side, as factors of a product along the latter.
template <int count>
__device__ void AsFactors(const float (&values)[count][4], uint32_t (&factors)[count / 2][4]) {
  PS_UNROLL
  for (int i = 0; i < 2 * count; ++i) {
    const float(&two)[4] = values[i / 4 * 2 + i % 4 / 2];
    factors[i / 4][i % 4] = ToBf16Pair(two[i % 2 * 2], two[i % 2 * 2 + 1]);
  }
}

/// Writes the 16 rows from `first` on, scaled.
template <int count>
__device__ void StoreOwn(
    const float (&sums)[count][4], float scale, const HeadRows& at, int64_t first, float* to) {
  PS_UNROLL
  for (int i = 0; i < 4 * count; ++i) {
    const int64_t row = first + LaneGroup() + i % 4 / 2 * 8;
    const int column = i / 4 * 8 + 2 * LaneMember() + i % 2;
    if (row < at.count && column < at.width) {
      to[at.begin + row * at.stride + column] = scale * sums[i / 4][i % 4];
    }
  }
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
  float largest = -INFINITY;
  float total = 0;
};

/// Makes weights of the scores with keys from `key0` on of one of the lane's two rows. Returns what
/// the sums so far are to be multiplied by.
template <int count>
__device__ float MakeWeights(
    const AttentionShape& shape,
    int64_t query,
    int64_t key0,
    int half,
    RowSoFar* row,
    float (&scores)[count][4]) {
  float now = row->largest;
  PS_UNROLL
  for (int i = 0; i < 2 * count; ++i) {
    const int64_t key = key0 + i / 2 * 8 + 2 * LaneMember() + i % 2;
    // Rows behind the last compute something too; nobody reads it.
    const bool is_visible = key < shape.options.length && (!shape.options.causal || key <= query);
    float& score = scores[i / 2][2 * half + i % 2];
    score = is_visible ? shape.scale * score : -INFINITY;
    now = fmaxf(now, score);
  }
  now = RowMax(now);
  float sum = 0;
  PS_UNROLL
  for (int i = 0; i < 2 * count; ++i) {
    float& score = scores[i / 2][2 * half + i % 2];
    score = expf(score - now);
    sum += score;
  }
  const float correction = expf(row->largest - now);
  row->total = row->total * correction + RowSum(sum);
  row->largest = now;
  return correction;
}

/// The forward pass of a tile of queries.
template <int width>
__device__ void MmaForward(
    const AttentionShape& shape, const Place& place, const float* x, float* log_sums, float* y) {
  constexpr int kOthers = kMmaOthers<width>;
  __shared__ PairsOfColumns<width> keys;
  __shared__ PairsOfRows<width> values;
  const AttentionOptions& o = shape.options;
  const int64_t own = place.first + static_cast<int64_t>(threadIdx.x) / 32 * 16;
  uint32_t queries[width / 16][4];
  LoadOwn(x, place.InX(Part::kQueries), own, queries);
  float sums[width / 8][4] = {};
  RowSoFar rows[2];
  const int64_t end = KeysEnd(o, place.first, kMmaTile);
  for (int64_t key0 = 0; key0 < end; key0 += kOthers) {
    __syncthreads();  // the tile before has been read
    ForSquares<width>(
        x, place.InX(Part::kKeys), key0, [&](int row, int column, const float(&square)[2][2]) {
          PutColumns(keys, row, column, square);
        });
    ForSquares<width>(
        x, place.InX(Part::kValues), key0, [&](int row, int column, const float(&square)[2][2]) {
          PutRows(values, row, column, square);
        });
    __syncthreads();
    if (own >= o.length || key0 >= KeysEnd(o, own, 16)) {
      continue;  // a warp as one
    }
    float scores[kOthers / 8][4] = {};
    MultiplyOwn(queries, keys, scores);
    PS_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int64_t query = own + LaneGroup() + 8 * half;
      const float correction = MakeWeights(shape, query, key0, half, &rows[half], scores);
      PS_UNROLL
      for (int i = 0; i < width / 4; ++i) {
        sums[i / 2][2 * half + i % 2] *= correction;
      }
    }
    uint32_t weights[kOthers / 16][4];
    AsFactors(scores, weights);
    MultiplyOwn(weights, values, sums);
  }
  PS_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int64_t query = own + LaneGroup() + 8 * half;
    PS_UNROLL
    for (int i = 0; i < width / 4; ++i) {
      sums[i / 2][2 * half + i % 2] /= rows[half].total;
    }
    if (LaneMember() == 0 && query < o.length) {
      log_sums[place.OfRow(query)] = rows[half].largest + logf(rows[half].total);
    }
  }
  StoreOwn(sums, 1, place.InY(), own, y);
}

/// Writes the gradients of a tile of queries.
template <int width>
__device__ void MmaQueryGradient(
    const AttentionShape& shape,
    const Place& place,
    const float* x,
    const float* log_sums,
    const float* deltas,
    const float* dy,
    float* dx) {
  constexpr int kOthers = kMmaOthers<width>;
  __shared__ PairsOfColumns<width> keys;
  __shared__ PairsOfRows<width> turned_keys;
  __shared__ PairsOfColumns<width> values;
  const AttentionOptions& o = shape.options;
  const int64_t own = place.first + static_cast<int64_t>(threadIdx.x) / 32 * 16;
  uint32_t queries[width / 16][4];
  uint32_t gradients[width / 16][4];
  LoadOwn(x, place.InX(Part::kQueries), own, queries);
  LoadOwn(dy, place.InY(), own, gradients);
  float log_sum[2] = {};
  float delta[2] = {};
  for (int half = 0; half < 2; ++half) {
    const int64_t query = own + LaneGroup() + 8 * half;
    if (query < o.length) {
      log_sum[half] = log_sums[place.OfRow(query)];
      delta[half] = deltas[place.OfRow(query)];
    }
  }
  float sums[width / 8][4] = {};
  const int64_t end = KeysEnd(o, place.first, kMmaTile);
  for (int64_t key0 = 0; key0 < end; key0 += kOthers) {
    __syncthreads();
    ForSquares<width>(
        x, place.InX(Part::kKeys), key0, [&](int row, int column, const float(&square)[2][2]) {
          PutColumns(keys, row, column, square);
          PutRows(turned_keys, row, column, square);
        });
    ForSquares<width>(
        x, place.InX(Part::kValues), key0, [&](int row, int column, const float(&square)[2][2]) {
          PutColumns(values, row, column, square);
        });
    __syncthreads();
    if (own >= o.length || key0 >= KeysEnd(o, own, 16)) {
      continue;
    }
    float p[kOthers / 8][4] = {};
    float dp[kOthers / 8][4] = {};
    MultiplyOwn(queries, keys, p);
    MultiplyOwn(gradients, values, dp);
    PS_UNROLL
    for (int i = 0; i < kOthers / 2; ++i) {
      const int half = i % 4 / 2;
      const int64_t query = own + LaneGroup() + 8 * half;
      const int64_t key = key0 + i / 4 * 8 + 2 * LaneMember() + i % 2;
      float& value = p[i / 4][i % 4];
      value = IsVisible(o, query, key)
                  ? expf(shape.scale * value - log_sum[half]) * (dp[i / 4][i % 4] - delta[half])
                  : 0.0F;
    }
    uint32_t weights[kOthers / 16][4];
    AsFactors(p, weights);
    MultiplyOwn(weights, turned_keys, sums);
  }
  StoreOwn(sums, shape.scale, place.InX(Part::kQueries), own, dx);
}

/// Writes the gradients of a tile of keys and of their values.
template <int width>
__device__ void MmaKeyGradient(
    const AttentionShape& shape,
    const Place& place,
    const float* x,
    const float* log_sums,
    const float* deltas,
    const float* dy,
    float* dx) {
  constexpr int kOthers = kMmaOthers<width>;
  __shared__ PairsOfColumns<width> queries;
  __shared__ PairsOfRows<width> turned_queries;
  __shared__ PairsOfColumns<width> gradients;
  __shared__ PairsOfRows<width> turned_gradients;
  __shared__ float log_sum[kOthers];
  __shared__ float delta[kOthers];
  const AttentionOptions& o = shape.options;
  const int64_t own = place.first + static_cast<int64_t>(threadIdx.x) / 32 * 16;
  uint32_t keys[width / 16][4];
  uint32_t values[width / 16][4];
  LoadOwn(x, place.InX(Part::kKeys), own, keys);
  LoadOwn(x, place.InX(Part::kValues), own, values);
  float key_sums[width / 8][4] = {};
  float value_sums[width / 8][4] = {};
  const int64_t begin = o.causal ? place.first / kOthers * kOthers : 0;
  for (int64_t query0 = begin; query0 < o.length; query0 += kOthers) {
    __syncthreads();
    ForSquares<width>(
        x, place.InX(Part::kQueries), query0, [&](int row, int column, const float(&square)[2][2]) {
          PutColumns(queries, row, column, square);
          PutRows(turned_queries, row, column, square);
        });
    ForSquares<width>(
        dy, place.InY(), query0, [&](int row, int column, const float(&square)[2][2]) {
          PutColumns(gradients, row, column, square);
          PutRows(turned_gradients, row, column, square);
        });
    if (threadIdx.x < kOthers && query0 + threadIdx.x < o.length) {
      log_sum[threadIdx.x] = log_sums[place.OfRow(query0 + threadIdx.x)];
      delta[threadIdx.x] = deltas[place.OfRow(query0 + threadIdx.x)];
    }
    __syncthreads();
    if (own >= o.length || (o.causal && query0 + kOthers <= own)) {
      continue;
    }
    float p[kOthers / 8][4] = {};
    float dp[kOthers / 8][4] = {};
    MultiplyOwn(keys, queries, p);
    MultiplyOwn(values, gradients, dp);
    PS_UNROLL
    for (int i = 0; i < kOthers / 2; ++i) {
      const int64_t key = own + LaneGroup() + i % 4 / 2 * 8;
      const int query = i / 4 * 8 + 2 * LaneMember() + i % 2;
      const bool is_visible = IsVisible(o, query0 + query, key);
      float& weight = p[i / 4][i % 4];
      float& gradient = dp[i / 4][i % 4];
      weight = is_visible ? expf(shape.scale * weight - log_sum[query]) : 0.0F;
      gradient = is_visible ? weight * (gradient - delta[query]) : 0.0F;
    }
    uint32_t weights[kOthers / 16][4];
    AsFactors(p, weights);
    MultiplyOwn(weights, turned_gradients, value_sums);
    AsFactors(dp, weights);
    MultiplyOwn(weights, turned_queries, key_sums);
  }
  StoreOwn(key_sums, shape.scale, place.InX(Part::kKeys), own, dx);
  StoreOwn(value_sums, 1, place.InX(Part::kValues), own, dx);
}

}  // namespace ps::kernels
