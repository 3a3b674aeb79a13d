#include <algorithm>
#include <cmath>
#include <vector>

#include "ps/base/check.h"
#include "ps/codec/difference.h"
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

/// Bytes that are a difference move what two sides hold alike, and such values can be sent on.
void CheckDifferences(
    const Encoding& encoding, std::span<const std::byte> bytes, std::span<const float> values) {
  std::vector<float> scratch(values.size());
  const Status status = codec::CheckDifference(encoding, bytes, scratch);
  PS_CHECK(status.ok() == AreFinite({values.begin(), values.end()})) << status;
  std::vector<float> receiver(values.size(), 1);
  if (!status.ok()) {
    return;
  }
  PS_CHECK(codec::AddDifference(encoding, bytes, receiver, scratch).ok());
  std::vector<float> sender = receiver;
  std::vector<std::byte> next(bytes.size());
  if (codec::EncodeDifference(encoding, values, sender, scratch, next)) {
    PS_CHECK(codec::CheckDifference(encoding, next, scratch).ok());
    PS_CHECK(codec::AddDifference(encoding, next, receiver, scratch).ok());
    PS_CHECK(AreFinite(receiver));
  }
  PS_CHECK(sender == receiver);
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
  if (kind == EncodingKind::kNothing) {
    PS_CHECK(!named.ok()) << "a job can name it";
  } else {
    PS_CHECK(named.ok() && *named == encoding) << encoding.ToText();
  }
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
  CheckDifferences(encoding, bytes, values);
  CheckSentOn(encoding, std::move(values));
  return true;
}

}  // namespace ps::fuzz
