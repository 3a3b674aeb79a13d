#pragma once

#include <cstdint>

namespace ps::checkpoint {

// IEEE 754 binary16 and bfloat16 as their bits. To the shorter type a value is rounded to the
// nearest, ties to even; what is too large becomes infinite. NaN stays NaN. To f32 and back gives
// the same bits, but for a signalling NaN, which becomes a quiet one.

uint16_t FloatToHalf(float value);
float HalfToFloat(uint16_t bits);

uint16_t FloatToBf16(float value);
float Bf16ToFloat(uint16_t bits);

}  // namespace ps::checkpoint
