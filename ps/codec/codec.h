#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ps/base/status.h"

// What a kind of encoding is to the rest of the folder. Private to it.

namespace ps::codec {

/// The functions of one kind, as encoding.h says of them, for one value or more. `share` is the
/// encoding's.
struct Codec {
  std::string_view name;
  bool has_share = false;
  uint64_t (*size)(uint32_t share, uint64_t count) = nullptr;
  /// `residual` may be null. `out` may be where `values` are.
  void (*encode)(
      uint32_t share, const float* values, float* residual, size_t count, std::byte* out) = nullptr;
  /// There are size(share, count) bytes.
  Status (*decode)(uint32_t share, const std::byte* bytes, float* values, size_t count) = nullptr;
};

extern const Codec kF32Codec;
extern const Codec kBf16Codec;
extern const Codec kInt8Codec;
extern const Codec kInt4Codec;
extern const Codec kTopkCodec;
extern const Codec kNothingCodec;

}  // namespace ps::codec
