#include "checkpoint/model/half.h"

#include <bit>
#include <cmath>
#include <cstddef>

namespace ps::checkpoint {
namespace {

constexpr uint32_t kFloatInfinity = 0x7f800000;
constexpr uint32_t kHalfInfinity = 0x7c00;
constexpr uint32_t kHalfQuietNan = 0x7e00;
/// Half-way between the largest half and the next power of two: rounds to infinity.
constexpr uint32_t kHalfOverflow = 0x477ff000;
constexpr uint32_t kHalfNormalMin = 0x38800000;  // 2^-14
constexpr uint32_t kBiasDifference = 112U << 23U;
constexpr uint32_t kMantissaDifference = 13;  // bits

}  // namespace

uint16_t FloatToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16U) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  uint32_t half = 0;
  if (magnitude > kFloatInfinity) {
    half = kHalfQuietNan | ((magnitude >> kMantissaDifference) & 0x1ffU);
  } else if (magnitude >= kHalfOverflow) {
    half = kHalfInfinity;
  } else if (magnitude >= kHalfNormalMin) {
    const uint32_t rebased = magnitude - kBiasDifference;
    const uint32_t is_odd = (rebased >> kMantissaDifference) & 1U;
    half = (rebased + 0xfffU + is_odd) >> kMantissaDifference;
  } else {
    // Subnormal halves are multiples of 2^-24, which is the last place of floats from 0.5 on: the
    // addition rounds.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
           std::bit_cast<uint32_t>(0.5F);
  }
  return static_cast<uint16_t>(sign | half);
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16U;
  const uint32_t exponent = (bits >> 10U) & 0x1fU;
  const uint32_t mantissa = bits & 0x3ffU;
  uint32_t magnitude = 0;
  if (exponent == 0) {
    magnitude = std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24F);
  } else if (exponent == 0x1f) {
    magnitude = kFloatInfinity | (mantissa << kMantissaDifference);
  } else {
    magnitude = (((exponent << 10U) | mantissa) << kMantissaDifference) + kBiasDifference;
  }
  return std::bit_cast<float>(sign | magnitude);
}

uint16_t FloatToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > kFloatInfinity) {
    return static_cast<uint16_t>((bits >> 16U) | 0x40U);
  }
  const uint32_t is_odd = (bits >> 16U) & 1U;
  return static_cast<uint16_t>((bits + 0x7fffU + is_odd) >> 16U);
}

float Bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16U);
}

void RoundToBf16(std::span<const float> values, std::span<float> rounded) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float nearest = Bf16ToFloat(FloatToBf16(values[i]));
    const auto cut = std::bit_cast<float>(std::bit_cast<uint32_t>(values[i]) & 0xffff0000U);
    rounded[i] = std::isinf(nearest) && std::isfinite(values[i]) ? cut : nearest;
  }
}

}  // namespace ps::checkpoint
