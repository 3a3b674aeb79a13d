// topk: of each block of 4,096 values, the last one shorter, the given share with the largest
// magnitudes, rounded up to whole values; the others are decoded as 0. A block is the places of
// those, 2 bytes each, growing, and then their values as bf16.
//
// What is compared are the magnitudes after rounding to bf16; of equal ones the first are taken, so
// zeros where there is not enough else. NaN counts as larger than infinity.

#include <bit>
#include <cstring>

#include "ps/base/vector_code.h"
#include "ps/codec/codec.h"
#include "ps/codec/encoding.h"

namespace ps::codec {
namespace {

constexpr size_t kBlock = 4096;
constexpr size_t kBytesEach = 2 * sizeof(uint16_t);
constexpr uint32_t kInfinity = 0x7f80;  // as bf16

/// How many of a block's values are sent.
uint64_t KeptOf(uint32_t share, uint64_t count) {
  return (count * share + Encoding::kShareUnit - 1) / Encoding::kShareUnit;
}

uint64_t Size(uint32_t share, uint64_t count) {
  return (count / kBlock * KeptOf(share, kBlock) + KeptOf(share, count % kBlock)) * kBytesEach;
}

/// The sums, and their magnitudes rounded to bf16.
PS_VECTOR_CLONES void Sum(
    const float* values, const float* residual, size_t count, float* sum, uint16_t* magnitudes) {
  for (size_t i = 0; i < count; ++i) {
    const float value = residual == nullptr ? values[i] : values[i] + residual[i];
    sum[i] = value;
    magnitudes[i] = static_cast<uint16_t>((ToBf16InUpperHalf(value) >> 16U) & 0x7fffU);
  }
}

/// How many of the values are `least` or more.
PS_VECTOR_CLONES uint32_t CountFrom(const uint16_t* magnitudes, size_t count, uint16_t least) {
  uint16_t sum = 0;  // at most kBlock
  for (size_t i = 0; i < count; ++i) {
    sum = static_cast<uint16_t>(sum + static_cast<uint16_t>(magnitudes[i] >= least));
  }
  return sum;
}

/// The largest magnitude that at least `kept` of the values have or exceed, bit by bit.
uint16_t ThresholdOf(const uint16_t* magnitudes, size_t count, uint32_t kept) {
  uint32_t threshold = 0;
  for (uint32_t bit = 0x4000; bit != 0; bit >>= 1U) {
    const uint32_t tried = threshold | bit;
    if (CountFrom(magnitudes, count, static_cast<uint16_t>(tried)) >= kept) {
      threshold = tried;
    }
  }
  return static_cast<uint16_t>(threshold);
}

/// The places of all values of `least` or more, growing. `places` has room for `count`. Returns how
/// many.
size_t PlacesFrom(const uint16_t* magnitudes, size_t count, uint16_t least, uint16_t* places) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    places[found] = static_cast<uint16_t>(i);
    found += magnitudes[i] >= least ? 1 : 0;
  }
  return found;
}

/// Leaves `kept` of the places: those of the smallest magnitude, `least`, go from the end.
void DropTies(
    const uint16_t* magnitudes, uint16_t least, size_t kept, size_t found, uint16_t* places) {
  size_t too_many = found - kept;
  size_t to = found;
  for (size_t from = found; from-- > 0;) {
    if (too_many > 0 && magnitudes[places[from]] == least) {
      --too_many;
    } else {
      places[--to] = places[from];
    }
  }
  std::memmove(places, places + to, kept * sizeof(uint16_t));
}

void WriteBlock(const float* values, float* residual, size_t count, size_t kept, std::byte* out) {
  float sum[kBlock];
  uint16_t magnitudes[kBlock];
  uint16_t places[kBlock];
  Sum(values, residual, count, sum, magnitudes);
  const uint16_t least = ThresholdOf(magnitudes, count, static_cast<uint32_t>(kept));
  const size_t found = PlacesFrom(magnitudes, count, least, places);
  DropTies(magnitudes, least, kept, found, places);
  bool is_finite = true;
  for (size_t j = 0; j < kept; ++j) {
    is_finite = is_finite && magnitudes[places[j]] < kInfinity;
  }
  std::byte* const kept_values = out + kept * sizeof(uint16_t);
  std::memcpy(out, places, kept * sizeof(uint16_t));
  for (size_t j = 0; j < kept; ++j) {
    const uint16_t rounded = ToBf16(sum[places[j]]);
    std::memcpy(kept_values + j * sizeof(rounded), &rounded, sizeof(rounded));
    sum[places[j]] -= FromBf16(rounded);
  }
  if (residual != nullptr && is_finite) {
    std::memcpy(residual, sum, count * sizeof(float));
  }
}

void Write(uint32_t share, const float* values, float* residual, size_t count, std::byte* out) {
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t n = count - at < kBlock ? count - at : kBlock;
    const size_t kept = KeptOf(share, n);
    WriteBlock(values + at, residual == nullptr ? nullptr : residual + at, n, kept, out);
    out += kept * kBytesEach;
  }
}

Status ReadBlock(const std::byte* bytes, size_t kept, size_t count, float* values) {
  std::memset(values, 0, count * sizeof(float));
  size_t next = 0;
  for (size_t j = 0; j < kept; ++j) {
    uint16_t place = 0;
    uint16_t value = 0;
    std::memcpy(&place, bytes + j * sizeof(place), sizeof(place));
    std::memcpy(&value, bytes + (kept + j) * sizeof(value), sizeof(value));
    if (place < next || place >= count) {
      return Status::InvalidArgument("the places of topk don't grow, or are beyond their block");
    }
    next = size_t{place} + 1;
    values[place] = FromBf16(value);
  }
  return Status::Ok();
}

Status Read(uint32_t share, const std::byte* bytes, float* values, size_t count) {
  for (size_t at = 0; at < count; at += kBlock) {
    const size_t n = count - at < kBlock ? count - at : kBlock;
    const size_t kept = KeptOf(share, n);
    PS_TRY(ReadBlock(bytes, kept, n, values + at));
    bytes += kept * kBytesEach;
  }
  return Status::Ok();
}

}  // namespace

const Codec kTopkCodec = {"topk", true, &Size, &Write, &Read};

}  // namespace ps::codec
