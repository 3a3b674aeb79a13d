#include <algorithm>
#include <cmath>
#include <vector>

#include "ps/base/check.h"
#include "ps/codec/encoding.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

using codec::Encoding;
using codec::EncodingKind;

/// Bytes of which a part of a gradient is made.
constexpr size_t kHeadBytes = 6;
constexpr size_t kCountMax = 20'000;

bool AreFinite(const std::vector<float>& values) {
  for (const float value : values) {
    if (!std::isfinite(value)) {
      return false;
    }
  }
  return true;
}

/// What was decoded is a gradient like any other: with and without a residual it can be sent on.
void CheckSentOn(const Encoding& encoding, std::vector<float> values) {
  std::vector<float> residual(values.size());
  std::vector<float> arrived(values.size());
  std::vector<std::byte> bytes(encoding.SizeOf(values.size()));
  codec::Encode(encoding, values, residual, bytes);
  PS_CHECK(codec::Decode(encoding, bytes, arrived).ok());
  PS_CHECK(AreFinite(residual));
  PS_CHECK(AreFinite(values) || !AreFinite(arrived));
  const std::span<std::byte> place = std::as_writable_bytes(std::span(values)).first(bytes.size());
  std::vector<std::byte> plain(bytes.size());
  codec::Encode(encoding, values, {}, plain);
  codec::Encode(encoding, values, {}, place);
  PS_CHECK(std::ranges::equal(place, plain));
}

}  // namespace

bool FuzzEncodings(std::span<const uint8_t> input) {
  if (input.size() < kHeadBytes) {
    return false;
  }
  const auto kind = static_cast<EncodingKind>(input[0]);
  const uint32_t share = input[1] + 256U * input[2] + 65536U * input[3];
  const size_t count = (input[4] + 256U * input[5]) % kCountMax;
  const Encoding encoding{kind, share};
  if (!codec::CheckEncoding(encoding).ok()) {
    return false;
  }
  const auto named = codec::ParseEncoding(encoding.ToText());
  PS_CHECK(named.ok() && *named == encoding) << encoding.ToText();
  std::vector<std::byte> bytes(encoding.SizeOf(count));  // the input, repeated or cut
  const std::span<const uint8_t> rest = input.subspan(kHeadBytes);
  for (size_t i = 0; i < bytes.size() && !rest.empty(); ++i) {
    bytes[i] = static_cast<std::byte>(rest[i % rest.size()]);
  }
  std::vector<float> values(count);
  const Status status = codec::Decode(encoding, bytes, values);
  if (!status.ok()) {
    PS_CHECK(status.code() == StatusCode::kInvalidArgument) << status;
    return false;
  }
  CheckSentOn(encoding, std::move(values));
  return true;
}

}  // namespace ps::fuzz
