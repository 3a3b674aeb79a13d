#pragma once

#include <cstdint>
#include <span>

namespace ps::checkpoint {

// IEEE 754 binary16 and bfloat16 as their bits. To the shorter type a value is rounded to the
// nearest, ties to even; what is too large becomes infinite. NaN stays NaN. To f32 and back gives
// the same bits, but for a signalling NaN, which becomes a quiet one.

uint16_t FloatToHalf(float value);
float HalfToFloat(uint16_t bits);

uint16_t FloatToBf16(float value);
float Bf16ToFloat(uint16_t bits);

/// Each value becomes the nearest one that bf16 has, ties to even, but what is finite stays so. The
/// relative error is at most 2^-8; below 2^-126, where floats are subnormal, the error is at most
/// 2^-134. Requires: spans of one size.
void RoundToBf16(std::span<const float> values, std::span<float> rounded);

}  // namespace ps::checkpoint
