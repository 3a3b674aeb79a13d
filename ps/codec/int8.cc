// int8: blocks of 256 values, the last one shorter. A block is its scale, an f32, and a signed byte
// a value: value = byte * scale. The scale is a 127th of the largest magnitude, and bytes are
// rounded to the nearest, ties to even, so what is lost of a value is at most half a scale.
// - A block of a single value is that value as f32.
// - Magnitudes below 2^-100 alone: the scale is 0.
// - A value that is not finite: the scale is NaN, and so is all that is decoded.

#include <bit>
#include <cstring>

#include "ps/base/vector_code.h"
#include "ps/codec/blocks.h"
#include "ps/codec/codec.h"

namespace ps::codec {
namespace {

constexpr size_t kBlock = 256;
constexpr float kLevels = 127;
/// 127 times this is finite.
constexpr float kScaleMax = 0x1.020406p+121F;
/// Added and taken away again, it rounds to an integer; added alone, it leaves that integer in the
/// lowest bits.
constexpr float kRounder = 0x1.8p+23F;

uint64_t SizeOfBlock(uint64_t count) {
  return count <= 1 ? count * sizeof(float) : sizeof(float) + count;
}

uint64_t Size(uint32_t /*share*/, uint64_t count) {
  return count / kBlock * SizeOfBlock(kBlock) + SizeOfBlock(count % kBlock);
}

PS_VECTOR_CLONES uint32_t
Sum(const float* values, const float* residual, size_t count, float* sum) {
  return SumOf(values, residual, count, sum);
}

PS_VECTOR_CLONES void Quantise(
    const float* sum, float scale, float inverse, size_t count, int8_t* bytes, float* residual) {
  if (residual == nullptr) {
    for (size_t i = 0; i < count; ++i) {
      bytes[i] = static_cast<int8_t>(std::bit_cast<uint32_t>(sum[i] * inverse + kRounder));
    }
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const float shifted = sum[i] * inverse + kRounder;
    bytes[i] = static_cast<int8_t>(std::bit_cast<uint32_t>(shifted));
    residual[i] = sum[i] - (shifted - kRounder) * scale;
  }
}

void WriteBlock(const float* values, float* residual, size_t count, std::byte* out) {
  float sum[kBlock];
  const uint32_t largest = Sum(values, residual, count, sum);
  const bool is_finite = largest < kInfinityBits;
  if (count == 1) {
    StoreFloat(sum[0], out);
    if (residual != nullptr && is_finite) {
      *residual = 0;
    }
    return;
  }
  int8_t bytes[kBlock] = {};
  float scale = 0;
  if (!is_finite) {
    scale = std::bit_cast<float>(kNotFiniteBits);
  } else {
    const auto most = std::bit_cast<float>(largest);
    float inverse = 0;
    if (most >= kLeastMagnitude) {
      scale = most / kLevels < kScaleMax ? most / kLevels : kScaleMax;
      inverse = kLevels / most;
    }
    Quantise(sum, scale, inverse, count, bytes, residual);
  }
  StoreFloat(scale, out);
  std::memcpy(out + sizeof(float), bytes, count);
}

void Write(uint32_t /*share*/, const float* values, float* residual, size_t count, std::byte* out) {
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t n = count - at < kBlock ? count - at : kBlock;
    WriteBlock(values + at, residual == nullptr ? nullptr : residual + at, n, out);
    out += SizeOfBlock(n);
  }
}

PS_VECTOR_CLONES void Expand(const std::byte* bytes, float scale, size_t count, float* values) {
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(static_cast<int8_t>(bytes[i])) * scale;
  }
}

Status Read(uint32_t /*share*/, const std::byte* bytes, float* values, size_t count) {
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t n = count - at < kBlock ? count - at : kBlock;
    const float scale = LoadFloat(bytes);
    if (n == 1) {
      values[at] = scale;
    } else if (!IsScale(scale)) {
      return Status::InvalidArgument("a block of int8 has no scale");
    } else {
      Expand(bytes + sizeof(float), scale, n, values + at);
    }
    bytes += SizeOfBlock(n);
  }
  return Status::Ok();
}

}  // namespace

const Codec kInt8Codec = {"int8", false, &Size, &Write, &Read};

}  // namespace ps::codec
