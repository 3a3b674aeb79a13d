// f32: the values themselves. What a residual holds goes with them.

#include <cstring>

#include "ps/codec/codec.h"

namespace ps::codec {
namespace {

uint64_t Size(uint32_t /*share*/, uint64_t count) {
  return count * sizeof(float);
}

void Write(uint32_t /*share*/, const float* values, float* residual, size_t count, std::byte* out) {
  if (residual == nullptr) {
    std::memmove(out, values, count * sizeof(float));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const float sum = values[i] + residual[i];
    std::memcpy(out + i * sizeof(float), &sum, sizeof(float));
    residual[i] = sum - sum == 0 ? 0 : residual[i];  // not so of NaN and infinity
  }
}

Status Read(uint32_t /*share*/, const std::byte* bytes, float* values, size_t count) {
  std::memcpy(values, bytes, count * sizeof(float));
  return Status::Ok();
}

}  // namespace

const Codec kF32Codec = {"f32", false, &Size, &Write, &Read};

}  // namespace ps::codec
