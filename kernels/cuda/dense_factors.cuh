#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/product.cuh"

// Factors of products that lie in memory.

namespace ps::kernels {

/// Whether fours of a dense array begin where they can be loaded at once.
inline bool AreFoursAligned(const float* values) {
  return reinterpret_cast<uintptr_t>(values) % sizeof(float4) == 0;
}

/// A factor in memory whose lines are `pitch` apart and have their depths side by side.
struct AlongDepth {
  static constexpr Lies kLies = Lies::kAlongDepth;

  using Line = const float*;  // nullptr: outside
  using Place = int64_t;

  __device__ Line AtLine(int64_t line) const {
    return line < lines ? values + line * pitch : nullptr;
  }

  __device__ Place AtPlace(int64_t k) const { return k; }

  __device__ void Advance(Place* k) const { *k += kProductDepth; }

  __device__ float4 Load(Line line, Place k) const {
    if (line == nullptr || k >= depth) {
      return {};
    }
    if (are_fours) {
      return *reinterpret_cast<const float4*>(line + k);
    }
    return {
        line[k],
        k + 1 < depth ? line[k + 1] : 0.0F,
        k + 2 < depth ? line[k + 2] : 0.0F,
        k + 3 < depth ? line[k + 3] : 0.0F};
  }

  const float* values;
  int64_t lines;
  int64_t depth;
  int64_t pitch;
  bool are_fours;  // depth and pitch are multiples of four, and the values are aligned
};

/// A factor in memory whose depths are `pitch` apart and have their lines side by side.
struct AlongLines {
  static constexpr Lies kLies = Lies::kAlongLines;

  using Line = int64_t;
  using Place = int64_t;

  __device__ Line AtLine(int64_t line) const { return line; }

  __device__ Place AtPlace(int64_t k) const { return k; }

  __device__ float4 Load(Line line, Place k) const {
    if (line >= lines || k >= depth) {
      return {};
    }
    const float* const at = values + k * pitch + line;
    if (are_fours) {
      return *reinterpret_cast<const float4*>(at);
    }
    return {
        at[0],
        line + 1 < lines ? at[1] : 0.0F,
        line + 2 < lines ? at[2] : 0.0F,
        line + 3 < lines ? at[3] : 0.0F};
  }

  const float* values;
  int64_t lines;
  int64_t depth;
  int64_t pitch;
  bool are_fours;  // lines and pitch are multiples of four, and the values are aligned
};

inline AlongDepth PitchedAlongDepth(
    const float* values, int64_t lines, int64_t depth, int64_t pitch) {
  const bool are_fours = depth % 4 == 0 && pitch % 4 == 0 && AreFoursAligned(values);
  return {values, lines, depth, pitch, are_fours};
}

inline AlongLines PitchedAlongLines(
    const float* values, int64_t lines, int64_t depth, int64_t pitch) {
  const bool are_fours = lines % 4 == 0 && pitch % 4 == 0 && AreFoursAligned(values);
  return {values, lines, depth, pitch, are_fours};
}

}  // namespace ps::kernels
