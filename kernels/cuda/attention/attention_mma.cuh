#pragma once

#include <cmath>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/mma_parts.cuh"

// Attention on tensor cores, after FlashAttention-2: of factors that are bf16 already. A warp has
// strips of 16 rows of a block's tile. Tiles of the other side come by asynchronous copies while
// the ones before are multiplied. What one product has written is a factor of the next, and lies in
// the lanes as it is to: scores never leave the registers. A lane has values of two rows of a
// strip, LaneGroup() and the eighth behind it, and four lanes have a row.

namespace ps::kernels {

/// The forward pass of a tile of queries.
template <int width>
__device__ void MmaForward(
    const AttentionShape& shape, const Place& place, const uint16_t* x, float* log_sums, float* y) {
  using S = MmaSizes<width>;
  constexpr int kStrips = S::kStrips;
  constexpr int kKeys = S::kKeys;
  const float binary_scale = BinaryScale(shape);
  const int own_row = static_cast<int>(threadIdx.x / 32) * 16 * kStrips;
  const int own = place.first + own_row;
  std::byte* const memory = BlockMemory();
  const FactorTile<width> query_tile{reinterpret_cast<uint4*>(memory)};
  RowCopier<width, S::kForwardRows>(x, place.FactorsInX(Part::kQueries), place.first)
      .Start(query_tile, place.first);
  CommitCopies();
  OtherRows<width, kKeys> others(
      memory + S::kForwardRows * width * sizeof(uint16_t),
      {x, place.FactorsInX(Part::kKeys), 0},
      {x, place.FactorsInX(Part::kValues), 0},
      0,
      place.KeysEnd(place.first, S::kForwardRows));
  others.Start();
  WaitForCopies<1>();
  __syncthreads();
  const OwnRows<kStrips, width, true> queries(query_tile, own_row);
  float sums[kStrips][width / 8][4] = {};
  RowSoFar rows[kStrips][2];
  others.ForEach([&](int key0, const auto& keys, const auto& values) {
    if (own >= place.length || key0 >= place.KeysEnd(own, 16 * kStrips)) {
      return;  // a warp as one
    }
    float scores[kStrips][kKeys / 8][4] = {};
    Multiply<false>(queries, keys, scores);
    if (!place.AreKeysVisible(own, key0, kKeys)) {
      PS_UNROLL
      for (int i = 0; i < kStrips * kKeys / 2; ++i) {
        const int strip = i / (kKeys / 2);
        const int at = i % (kKeys / 2);
        const int query = own + 16 * strip + LaneGroup() + at % 4 / 2 * 8;
        const int key = key0 + at / 4 * 8 + 2 * LaneMember() + at % 2;
        // Rows behind the last compute something too; nobody reads it.
        if (key >= place.length || (place.is_causal && key > query)) {
          scores[strip][at / 4][at % 4] = -INFINITY;
        }
      }
    }
    PS_UNROLL
    for (int i = 0; i < 2 * kStrips; ++i) {
      const int strip = i / 2;
      const int half = i % 2;
      const float correction = MakeWeights(binary_scale, half, &rows[strip][half], scores[strip]);
      PS_UNROLL
      for (int j = 0; j < width / 4; ++j) {
        sums[strip][j / 2][2 * half + j % 2] *= correction;
      }
    }
    Multiply<true>(Weights<kStrips, kKeys / 8>(scores), values, sums);
  });
  PS_UNROLL
  for (int strip = 0; strip < kStrips; ++strip) {
    float scales[2];
    PS_UNROLL
    for (int half = 0; half < 2; ++half) {
      const RowSoFar& row = rows[strip][half];
      const int query = own + 16 * strip + LaneGroup() + 8 * half;
      const float total = RowSum(row.total);
      scales[half] = 1 / total;
      if (LaneMember() == 0 && query < place.length) {
        log_sums[place.OfRow(query)] = binary_scale * row.largest + log2f(total);
      }
    }
    StoreStrip(sums[strip], scales, place.InY(), own + 16 * strip, y);
  }
}

/// Writes the gradients of a tile of queries.
template <int width>
__device__ void MmaQueryGradient(
    const AttentionShape& shape,
    const Place& place,
    const uint16_t* x,
    const float* log_sums,
    const float* deltas,
    const uint16_t* dy,
    float* dx) {
  using S = MmaSizes<width>;
  constexpr int kRows = S::kBackwardRows;
  constexpr int kKeys = S::kQueryKeys;
  const float binary_scale = BinaryScale(shape);
  const int own_row = static_cast<int>(threadIdx.x / 32) * 16;
  const int own = place.first + own_row;
  std::byte* const memory = BlockMemory();
  const FactorTile<width> query_tile{reinterpret_cast<uint4*>(memory)};
  const FactorTile<width> gradient_tile{query_tile.memory + kRows * width / 8};
  using OwnCopier = RowCopier<width, kRows>;
  OwnCopier(x, place.FactorsInX(Part::kQueries), place.first).Start(query_tile, place.first);
  OwnCopier(dy, place.FactorsInDy(), place.first).Start(gradient_tile, place.first);
  CommitCopies();
  OtherRows<width, kKeys> others(
      memory + 2 * kRows * width * sizeof(uint16_t),
      {x, place.FactorsInX(Part::kKeys), 0},
      {x, place.FactorsInX(Part::kValues), 0},
      0,
      place.KeysEnd(place.first, kRows));
  others.Start();
  float log_sum[2] = {};
  float delta[2] = {};
  PS_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int query = own + LaneGroup() + 8 * half;
    if (query < place.length) {
      log_sum[half] = log_sums[place.OfRow(query)];
      delta[half] = deltas[place.OfRow(query)];
    }
  }
  WaitForCopies<1>();
  __syncthreads();
  const OwnRows<1, width, true> queries(query_tile, own_row);
  const OwnRows<1, width, true> gradients(gradient_tile, own_row);
  float sums[1][width / 8][4] = {};
  others.ForEach([&](int key0, const auto& keys, const auto& values) {
    if (own >= place.length || key0 >= place.KeysEnd(own, 16)) {
      return;
    }
    float p[1][kKeys / 8][4] = {};
    float dp[1][kKeys / 8][4] = {};
    Multiply<false>(queries, keys, p);
    Multiply<false>(gradients, values, dp);
    PS_UNROLL
    for (int i = 0; i < kKeys / 2; ++i) {
      const int half = i % 4 / 2;
      float& value = p[0][i / 4][i % 4];
      value = FastExp2(binary_scale * value - log_sum[half]) * (dp[0][i / 4][i % 4] - delta[half]);
    }
    if (!place.AreKeysVisible(own, key0, kKeys)) {
      PS_UNROLL
      for (int i = 0; i < kKeys / 2; ++i) {
        const int query = own + LaneGroup() + i % 4 / 2 * 8;
        const int key = key0 + i / 4 * 8 + 2 * LaneMember() + i % 2;
        if (!place.IsVisible(query, key)) {
          p[0][i / 4][i % 4] = 0;
        }
      }
    }
    Multiply<true>(Weights<1, kKeys / 8>(p), keys, sums);
  });
  StoreStrip(sums[0], {shape.scale, shape.scale}, place.InDx(Part::kQueries), own, dx);
}

/// Writes the gradients of a tile of keys and of their values.
template <int width>
__device__ void MmaKeyGradient(
    const AttentionShape& shape,
    const Place& place,
    const uint16_t* x,
    const float* log_sums,
    const float* deltas,
    const uint16_t* dy,
    float* dx) {
  using S = MmaSizes<width>;
  constexpr int kRows = S::kBackwardRows;
  constexpr int kQueries = S::kKeyQueries;
  const float binary_scale = BinaryScale(shape);
  const int own_row = static_cast<int>(threadIdx.x / 32) * 16;
  const int own = place.first + own_row;
  std::byte* const memory = BlockMemory();
  const FactorTile<width> key_tile{reinterpret_cast<uint4*>(memory)};
  const FactorTile<width> value_tile{key_tile.memory + kRows * width / 8};
  using OwnCopier = RowCopier<width, kRows>;
  OwnCopier(x, place.FactorsInX(Part::kKeys), place.first).Start(key_tile, place.first);
  OwnCopier(x, place.FactorsInX(Part::kValues), place.first).Start(value_tile, place.first);
  CommitCopies();
  const int begin = place.is_causal ? place.first / kQueries * kQueries : 0;
  OtherRows<width, kQueries> others(
      memory + 2 * kRows * width * sizeof(uint16_t),
      {x, place.FactorsInX(Part::kQueries), begin},
      {dy, place.FactorsInDy(), begin},
      begin,
      place.length);
  others.Start();
  WaitForCopies<1>();
  __syncthreads();
  const OwnRows<1, width, S::kAreKeysInRegisters> keys(key_tile, own_row);
  const OwnRows<1, width, S::kAreKeysInRegisters> values(value_tile, own_row);
  float key_sums[1][width / 8][4] = {};
  float value_sums[1][width / 8][4] = {};
  others.ForEach([&](int query0, const auto& queries, const auto& gradients) {
    if (own >= place.length || (place.is_causal && query0 + kQueries <= own)) {
      return;
    }
    // Two queries each, under way while the scores are computed.
    const bool are_visible = place.AreQueriesVisible(query0, kQueries, own, 16);
    float2 log_sum[kQueries / 8];
    float2 delta[kQueries / 8];
    PS_UNROLL
    for (int j = 0; j < kQueries / 8; ++j) {
      const int query = query0 + 8 * j + 2 * LaneMember();
      const bool is_there = are_visible || query < place.length;
      const int64_t at = place.OfRow(query);
      log_sum[j] = is_there ? *reinterpret_cast<const float2*>(log_sums + at) : float2{};
      delta[j] = is_there ? *reinterpret_cast<const float2*>(deltas + at) : float2{};
      if (!are_visible && query + 1 >= place.length) {
        delta[j].y = 0;  // nobody has written what is behind the last row
      }
    }
    float p[1][kQueries / 8][4] = {};
    Multiply<false>(keys, queries, p);
    PS_UNROLL
    for (int i = 0; i < kQueries / 2; ++i) {
      const float2& two = log_sum[i / 4];
      float& value = p[0][i / 4][i % 4];
      value = FastExp2(binary_scale * value - (i % 2 == 0 ? two.x : two.y));
      if (!are_visible) {
        const int key = own + LaneGroup() + i % 4 / 2 * 8;
        const int query = query0 + i / 4 * 8 + 2 * LaneMember() + i % 2;
        value = place.IsVisible(query, key) ? value : 0.0F;
      }
    }
    Multiply<true>(Weights<1, kQueries / 8>(p), gradients, value_sums);
    float dp[1][kQueries / 8][4] = {};
    Multiply<false>(values, gradients, dp);
    PS_UNROLL
    for (int i = 0; i < kQueries / 2; ++i) {
      const float2& two = delta[i / 4];
      float& value = p[0][i / 4][i % 4];
      value *= dp[0][i / 4][i % 4] - (i % 2 == 0 ? two.x : two.y);
    }
    Multiply<true>(Weights<1, kQueries / 8>(p), queries, key_sums);
  });
  StoreStrip(key_sums[0], {shape.scale, shape.scale}, place.InDx(Part::kKeys), own, dx);
  StoreStrip(value_sums[0], {1, 1}, place.InDx(Part::kValues), own, dx);
}

}  // namespace ps::kernels
