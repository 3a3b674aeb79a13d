#include "ps/codec/difference.h"

#include <bit>
#include <cstdint>

#include "ps/base/check.h"
#include "ps/base/vector_code.h"
#include "ps/codec/blocks.h"

namespace ps::codec {
namespace {

PS_VECTOR_CLONES void Subtract(const float* values, const float* held, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = values[i] - held[i];
  }
}

PS_VECTOR_CLONES void Add(const float* difference, size_t count, float* held) {
  for (size_t i = 0; i < count; ++i) {
    held[i] += difference[i];
  }
}

/// The largest magnitude of a[i] + b[i], as bits; without `b`, of a[i].
PS_VECTOR_CLONES uint32_t LargestSum(const float* a, const float* b, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const float sum = b == nullptr ? a[i] : a[i] + b[i];
    const uint32_t magnitude = std::bit_cast<uint32_t>(sum) & kMagnitudeMask;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

}  // namespace

bool EncodeDifference(
    const Encoding& encoding,
    std::span<const float> values,
    std::span<float> held,
    std::span<float> scratch,
    std::span<std::byte> out) {
  const size_t count = values.size();
  PS_CHECK(held.size() == count && scratch.size() == count) << "another number of values";
  Subtract(values.data(), held.data(), count, scratch.data());
  Encode(encoding, scratch, {}, out);
  const Status status = Decode(encoding, out, scratch);
  PS_CHECK(status.ok()) << status;  // it was just written
  if (LargestSum(scratch.data(), held.data(), count) >= kInfinityBits ||
      LargestSum(scratch.data(), nullptr, count) >= kInfinityBits) {
    return false;
  }
  Add(scratch.data(), count, held.data());
  return true;
}

Status CheckDifference(
    const Encoding& encoding, std::span<const std::byte> bytes, std::span<float> scratch) {
  PS_TRY(Decode(encoding, bytes, scratch));
  return LargestSum(scratch.data(), nullptr, scratch.size()) < kInfinityBits
             ? Status::Ok()
             : Status::InvalidArgument("a difference is not finite");
}

Status AddDifference(
    const Encoding& encoding,
    std::span<const std::byte> bytes,
    std::span<float> held,
    std::span<float> scratch) {
  PS_CHECK(held.size() == scratch.size()) << "another number of values";
  PS_TRY(Decode(encoding, bytes, scratch));
  Add(scratch.data(), held.size(), held.data());
  return Status::Ok();
}

}  // namespace ps::codec
