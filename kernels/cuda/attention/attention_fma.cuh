#pragma once

#include <cmath>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/fma_parts.cuh"

// Attention by multiply-adds: of f32, and of rounded factors where a device has no tensor cores for
// them. A lane has `each` rows of a tile, every fourth of a warp's, and the warp's lanes are eight
// across: a lane has scores of its rows by every eighth row of the other side, then sums of the
// same rows by fours of columns. Weights go from the one to the other through shared memory, within
// the warp.

namespace ps::kernels {

/// The forward pass of a tile of queries from `first` on.
template <int width, Precision precision>
__device__ void FmaForward(
    const AttentionShape& shape,
    const Place& place,
    int first,
    const AttentionFactor<precision>* x,
    float* log_sums,
    float* y) {
  using S = FmaForwardSizes<width, precision>;
  FmaMemory memory;
  const auto queries = memory.Take<width>(S::kTile);
  const auto keys = memory.Take<width>(S::kOthers);
  const auto values = memory.Take<width>(S::kOthers);
  const auto weights = memory.Take<S::kOthers>(S::kTile);
  const float binary_scale = BinaryScale(shape);
  const FmaLane<S::kEach> lane;
  LoadRows<S::kTile, width>(x, place.FactorsInX(Part::kQueries), first, queries);
  float sums[S::kEach][S::kColumns] = {};
  float largest[S::kEach];
  float total[S::kEach] = {};  // of the lane's weights
  for (float& value : largest) {
    value = -INFINITY;
  }
  const int end = place.KeysEnd(first, S::kTile);
  for (int key0 = 0; key0 < end; key0 += S::kOthers) {
    __syncthreads();  // the tile before has been read
    LoadRows<S::kOthers, width>(x, place.FactorsInX(Part::kKeys), key0, keys);
    LoadRows<S::kOthers, width>(x, place.FactorsInX(Part::kValues), key0, values);
    __syncthreads();
    float p[S::kEach][S::kOthersEach];
    Products(lane, queries, keys, p);
    const bool are_visible = place.AreKeysVisible(first + lane.warp_row, key0, S::kOthers);
    PS_UNROLL
    for (int i = 0; i < S::kEach; ++i) {
      float now = largest[i];
      PS_UNROLL
      for (int j = 0; j < S::kOthersEach; ++j) {
        // Rows behind the last compute something too: their lanes are needed, their sums are not.
        const int key = key0 + lane.Other(j);
        const bool is_hidden =
            !are_visible && (key >= place.length || (place.is_causal && key > first + lane.Row(i)));
        p[i][j] = is_hidden ? -INFINITY : binary_scale * p[i][j];
        now = fmaxf(now, p[i][j]);
      }
      now = MaxAcross(now);
      const float correction = exp2f(largest[i] - now);
      largest[i] = now;
      total[i] *= correction;
      PS_UNROLL
      for (int j = 0; j < S::kOthersEach; ++j) {
        p[i][j] = exp2f(p[i][j] - now);
        total[i] += p[i][j];
      }
      for (float& sum : sums[i]) {
        sum *= correction;
      }
    }
    PutWeights<precision>(lane, p, weights);
    Accumulate(lane, weights, values, sums);
  }
  float scales[S::kEach];
  PS_UNROLL
  for (int i = 0; i < S::kEach; ++i) {
    const int query = first + lane.Row(i);
    total[i] = SumAcross(total[i]);
    scales[i] = 1 / total[i];
    if (lane.across == 0 && query < place.length) {
      log_sums[place.OfRow(query)] = largest[i] + log2f(total[i]);
    }
  }
  Store(lane, sums, scales, place.InY(), first, y);
}

/// Writes the gradients of a tile of queries.
template <int width, Precision precision>
__device__ void FmaQueryGradient(
    const AttentionShape& shape,
    const Place& place,
    int first,
    const AttentionFactor<precision>* x,
    const float* log_sums,
    const float* deltas,
    const AttentionFactor<precision>* dy,
    float* dx) {
  using S = FmaBackwardSizes<width, precision>;
  FmaMemory memory;
  const auto queries = memory.Take<width>(S::kTile);
  const auto gradients = memory.Take<width>(S::kTile);
  const auto keys = memory.Take<width>(S::kOthers);
  const auto values = memory.Take<width>(S::kOthers);
  const auto weights = memory.Take<S::kOthers>(S::kTile);
  const float binary_scale = BinaryScale(shape);
  const FmaLane<S::kEach> lane;
  LoadRows<S::kTile, width>(x, place.FactorsInX(Part::kQueries), first, queries);
  LoadRows<S::kTile, width>(dy, place.FactorsInDy(), first, gradients);
  float log_sum[S::kEach];
  float delta[S::kEach];
  PS_UNROLL
  for (int i = 0; i < S::kEach; ++i) {
    const int query = first + lane.Row(i);
    log_sum[i] = query < place.length ? log_sums[place.OfRow(query)] : 0.0F;
    delta[i] = query < place.length ? deltas[place.OfRow(query)] : 0.0F;
  }
  float sums[S::kEach][S::kColumns] = {};
  const int end = place.KeysEnd(first, S::kTile);
  for (int key0 = 0; key0 < end; key0 += S::kOthers) {
    __syncthreads();
    LoadRows<S::kOthers, width>(x, place.FactorsInX(Part::kKeys), key0, keys);
    LoadRows<S::kOthers, width>(x, place.FactorsInX(Part::kValues), key0, values);
    __syncthreads();
    float p[S::kEach][S::kOthersEach];
    float dp[S::kEach][S::kOthersEach];
    Products(lane, queries, keys, p);
    Products(lane, gradients, values, dp);
    const bool are_visible = place.AreKeysVisible(first + lane.warp_row, key0, S::kOthers);
    PS_UNROLL
    for (int i = 0; i < S::kEach * S::kOthersEach; ++i) {
      const int row = i / S::kOthersEach;
      const int j = i % S::kOthersEach;
      const bool is_visible =
          are_visible || place.IsVisible(first + lane.Row(row), key0 + lane.Other(j));
      const float weight = exp2f(binary_scale * p[row][j] - log_sum[row]);
      p[row][j] = is_visible ? weight * (dp[row][j] - delta[row]) : 0.0F;
    }
    PutWeights<precision>(lane, p, weights);
    Accumulate(lane, weights, keys, sums);
  }
  const SameScales<S::kEach> scales(shape.scale);
  Store(lane, sums, scales.values, place.InDx(Part::kQueries), first, dx);
}

/// Writes the gradients of a tile of keys and of their values.
template <int width, Precision precision>
__device__ void FmaKeyGradient(
    const AttentionShape& shape,
    const Place& place,
    int first,
    const AttentionFactor<precision>* x,
    const float* log_sums,
    const float* deltas,
    const AttentionFactor<precision>* dy,
    float* dx) {
  using S = FmaBackwardSizes<width, precision>;
  FmaMemory memory;
  const auto keys = memory.Take<width>(S::kTile);
  const auto values = memory.Take<width>(S::kTile);
  const auto queries = memory.Take<width>(S::kOthers);
  const auto gradients = memory.Take<width>(S::kOthers);
  const auto weights = memory.Take<S::kOthers>(S::kTile);
  const float binary_scale = BinaryScale(shape);
  const FmaLane<S::kEach> lane;
  LoadRows<S::kTile, width>(x, place.FactorsInX(Part::kKeys), first, keys);
  LoadRows<S::kTile, width>(x, place.FactorsInX(Part::kValues), first, values);
  float key_sums[S::kEach][S::kColumns] = {};
  float value_sums[S::kEach][S::kColumns] = {};
  const int begin = place.is_causal ? first / S::kOthers * S::kOthers : 0;
  for (int query0 = begin; query0 < place.length; query0 += S::kOthers) {
    __syncthreads();
    LoadRows<S::kOthers, width>(x, place.FactorsInX(Part::kQueries), query0, queries);
    LoadRows<S::kOthers, width>(dy, place.FactorsInDy(), query0, gradients);
    __syncthreads();
    float p[S::kEach][S::kOthersEach];
    float dp[S::kEach][S::kOthersEach];
    Products(lane, keys, queries, p);
    Products(lane, values, gradients, dp);
    const int own = first + lane.warp_row;
    const bool are_visible = place.AreQueriesVisible(query0, S::kOthers, own, S::kWarpRows);
    PS_UNROLL
    for (int j = 0; j < S::kOthersEach; ++j) {
      const int query = query0 + lane.Other(j);
      const float log_sum = query < place.length ? log_sums[place.OfRow(query)] : 0.0F;
      const float delta = query < place.length ? deltas[place.OfRow(query)] : 0.0F;
      PS_UNROLL
      for (int i = 0; i < S::kEach; ++i) {
        const bool is_visible = are_visible || place.IsVisible(query, first + lane.Row(i));
        p[i][j] = is_visible ? exp2f(binary_scale * p[i][j] - log_sum) : 0.0F;
        dp[i][j] = is_visible ? p[i][j] * (dp[i][j] - delta) : 0.0F;
      }
    }
    PutWeights<precision>(lane, p, weights);
    Accumulate(lane, weights, gradients, value_sums);
    PutWeights<precision>(lane, dp, weights);
    Accumulate(lane, weights, queries, key_sums);
  }
  const SameScales<S::kEach> key_scales(shape.scale);
  const SameScales<S::kEach> value_scales(1);
  Store(lane, key_sums, key_scales.values, place.InDx(Part::kKeys), first, dx);
  Store(lane, value_sums, value_scales.values, place.InDx(Part::kValues), first, dx);
}

}  // namespace ps::kernels
