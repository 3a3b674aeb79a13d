#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::codec {

/// How f32 values are written where every byte counts. The numbers travel.
enum class EncodingKind : uint8_t {
  kF32 = 0,
  kBf16 = 1,
  kInt8 = 2,
  kInt4 = 3,
  kTopk = 4,
  kNothing = 5,  // values that nobody wants: no bytes, which decode to zeros. No job names it
};

inline constexpr int kEncodingKindCount = 6;

/// A kind with its parameters: a small value that compares.
///
/// For all encodings:
/// - The size follows from the number of values alone, and is never more than that of f32.
/// - The bytes follow from the values (and the residual) alone, the same on every machine. They
///   have no alignment.
/// - What is not finite stays so: where a value or its sum with the residual is NaN or infinite,
///   decoding gives at least one value of its block that is NaN or infinite. Not so with kNothing,
///   which leaves the residual alone.
struct Encoding {
  EncodingKind kind = EncodingKind::kF32;
  /// kTopk: how many values of a million are kept, 1 to kShareMax. Else 0.
  uint32_t share = 0;

  static constexpr uint32_t kShareUnit = 1'000'000;
  static constexpr uint32_t kShareMax = kShareUnit / 2;

  /// Whether decoding gives other values than were encoded, of those that somebody wants.
  bool is_lossy() const { return kind != EncodingKind::kF32 && kind != EncodingKind::kNothing; }

  /// Bytes of `count` values. Never overflows: at most 4 a value.
  uint64_t SizeOf(uint64_t count) const;

  /// As ParseEncoding takes it: "int8", "topk:0.01".
  std::string ToText() const;

  friend bool operator==(const Encoding&, const Encoding&) = default;
};

/// Whether it is one that ParseEncoding could have made, or kNothing. Errors: kInvalidArgument.
Status CheckEncoding(const Encoding& encoding);

/// Reads "f32", "bf16", "int8", "int4" or "topk:" and a share above 0, up to 0.5, in steps of a
/// millionth. Errors: kInvalidArgument, with what is meant perhaps.
Result<Encoding> ParseEncoding(std::string_view text);

/// The names of all kinds, as ParseEncoding takes them; topk with a share for an example.
std::vector<std::string_view> EncodingNames();

/// Writes `values` to `out`.
///   values    [n] f32, any alignment of 4 bytes
///   residual  [n] f32, read and written, or empty: what earlier calls held back. It is added to
///             the values, and what the bytes lack of the sum is left in it. Of a block that is not
///             finite it stays as it was.
///   out       [SizeOf(n)] bytes. They may overlap the values, which are lost then, where they
///             begin with them or before.
/// Requires: CheckEncoding is Ok. Thread: any. Allocates nothing.
void Encode(
    const Encoding& encoding,
    std::span<const float> values,
    std::span<float> residual,
    std::span<std::byte> out);

/// Reads bytes from anywhere. `values` [n] f32 are written in full, or have no meaning after an
/// error. Errors: kInvalidArgument unless the bytes are SizeOf(n) and could have been written by
/// Encode: scales are finite or say that the block is not, places are within the block and grow.
/// Requires: CheckEncoding is Ok.
Status Decode(const Encoding& encoding, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace ps::codec
