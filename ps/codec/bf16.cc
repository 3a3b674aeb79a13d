// bf16: the upper half of each f32, rounded to the nearest, ties to even. A value that rounding
// makes infinite counts as not finite.

#include <bit>
#include <cstring>

#include "ps/base/vector_code.h"
#include "ps/codec/codec.h"

namespace ps::codec {
namespace {

/// Values at a time, by way of memory of the encoder's own: the bytes may lie on the values.
constexpr size_t kBlock = 256;

uint64_t Size(uint32_t /*share*/, uint64_t count) {
  return count * sizeof(uint16_t);
}

PS_VECTOR_CLONES void WriteBlock(
    const float* values, float* residual, size_t count, uint16_t* rounded) {
  if (residual == nullptr) {
    for (size_t i = 0; i < count; ++i) {
      rounded[i] = ToBf16(values[i]);
    }
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const float held = residual[i];
    const float sum = values[i] + held;
    const uint32_t bits = ToBf16InUpperHalf(sum) & 0xffff0000U;
    rounded[i] = static_cast<uint16_t>(bits >> 16U);
    const bool is_finite = (bits & 0x7f800000U) != 0x7f800000U;
    residual[i] = is_finite ? sum - std::bit_cast<float>(bits) : held;
  }
}

void Write(uint32_t /*share*/, const float* values, float* residual, size_t count, std::byte* out) {
  uint16_t rounded[kBlock];
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t n = count - at < kBlock ? count - at : kBlock;
    WriteBlock(values + at, residual == nullptr ? nullptr : residual + at, n, rounded);
    std::memcpy(out + at * sizeof(uint16_t), rounded, n * sizeof(uint16_t));
  }
}

PS_VECTOR_CLONES void ReadAll(const std::byte* bytes, float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
    values[i] = FromBf16(bits);
  }
}

Status Read(uint32_t /*share*/, const std::byte* bytes, float* values, size_t count) {
  ReadAll(bytes, values, count);
  return Status::Ok();
}

}  // namespace

const Codec kBf16Codec = {"bf16", false, &Size, &Write, &Read};

}  // namespace ps::codec
