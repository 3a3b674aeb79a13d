#pragma once

#include <bit>
#include <cstdint>

namespace ps {

/// x rounded to bfloat16, the upper half of an f32: to the nearest, ties to even; a NaN stays one.
/// In the upper half of the result; the lower one has no meaning.
constexpr uint32_t ToBf16InUpperHalf(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return is_nan ? bits | 0x400000U : bits + 0x7fffU + ((bits >> 16U) & 1U);
}

constexpr uint16_t ToBf16(float x) {
  return static_cast<uint16_t>(ToBf16InUpperHalf(x) >> 16U);
}

constexpr float FromBf16(uint16_t x) {
  return std::bit_cast<float>(uint32_t{x} << 16U);
}

}  // namespace ps
