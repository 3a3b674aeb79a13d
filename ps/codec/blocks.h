#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

// What encodings in blocks with one scale have in common. Private to the folder.

namespace ps::codec {

inline constexpr uint32_t kMagnitudeMask = 0x7fffffffU;
inline constexpr uint32_t kInfinityBits = 0x7f800000U;
/// The scale of a block that is not finite: the one NaN that a scale may be.
inline constexpr uint32_t kNotFiniteBits = 0x7fc00000U;
/// A block without larger values is sent as zeros: there, a scale would be denormal.
inline constexpr float kLeastMagnitude = 0x1p-100F;

inline float LoadFloat(const std::byte* bytes) {
  float value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

inline void StoreFloat(float value, std::byte* bytes) {
  std::memcpy(bytes, &value, sizeof(value));
}

/// Whether an encoder could have written it.
inline bool IsScale(float scale) {
  const auto bits = std::bit_cast<uint32_t>(scale);
  return bits < kInfinityBits || bits == kNotFiniteBits;
}

/// sum[i] = values[i] + residual[i], or values[i] when there is no residual. Returns the largest
/// magnitude, as bits: those of NaN are above those of infinity, and those above all others.
inline uint32_t SumOf(const float* values, const float* residual, size_t count, float* sum) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const float value = residual == nullptr ? values[i] : values[i] + residual[i];
    sum[i] = value;
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & kMagnitudeMask;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

}  // namespace ps::codec
