#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "ps/base/random.h"
#include "ps/codec/encoding.h"

namespace ps::codec {

/// For what gtest prints.
inline void PrintTo(const Encoding& encoding, std::ostream* out) {
  *out << encoding.ToText();
}

/// One of each kind, and the extremes of those with a share.
inline std::vector<Encoding> AllEncodings() {
  return {
      {EncodingKind::kF32},
      {EncodingKind::kBf16},
      {EncodingKind::kInt8},
      {EncodingKind::kInt4},
      {EncodingKind::kTopk, 1},
      {EncodingKind::kTopk, 10'000},
      {EncodingKind::kTopk, 333'333},
      {EncodingKind::kTopk, Encoding::kShareMax},
  };
}

inline std::vector<std::byte> Encoded(
    const Encoding& encoding, std::span<const float> values, std::span<float> residual = {}) {
  std::vector<std::byte> bytes(encoding.SizeOf(values.size()));
  Encode(encoding, values, residual, bytes);
  return bytes;
}

inline std::vector<float> Decoded(
    const Encoding& encoding, std::span<const std::byte> bytes, size_t count) {
  std::vector<float> values(count);
  for (float& value : values) {  // all is to be written
    value = std::numeric_limits<float>::quiet_NaN();
  }
  const Status status = Decode(encoding, bytes, values);
  PS_CHECK(status.ok()) << status;
  return values;
}

/// Of many magnitudes, as gradients are.
inline std::vector<float> GradientLike(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    const double sign = random.Chance(0.5) ? -1 : 1;
    values.push_back(static_cast<float>(sign * std::exp(4 * random.Unit() - 12) * random.Unit()));
  }
  return values;
}

inline std::vector<uint32_t> BitsOf(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) {
    bits.push_back(std::bit_cast<uint32_t>(value));
  }
  return bits;
}

}  // namespace ps::codec
