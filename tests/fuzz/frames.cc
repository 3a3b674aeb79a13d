#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "ps/base/check.h"
#include "ps/base/crc32c.h"
#include "ps/json/json_value.h"
#include "ps/net/internal/frame_reader.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
T Load(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// The same frames with a valid header and valid checksums each; lengths that do not fit are cut.
Bytes PutRight(std::span<const std::byte> in) {
  Bytes out;
  while (in.size() >= proto::kFrameHeaderBytes) {
    proto::FrameHeader header;
    header.type = Load<uint16_t>(in, 6);
    header.header_bytes = Load<uint32_t>(in, 12);
    header.payload_bytes = Load<uint64_t>(in, 16);
    header.request_id = Load<uint64_t>(in, 24);
    in = in.subspan(proto::kFrameHeaderBytes);
    header.header_bytes = static_cast<uint32_t>(std::min<size_t>(header.header_bytes, in.size()));
    const auto flatbuffer = in.first(header.header_bytes);
    in = in.subspan(flatbuffer.size());
    in = in.subspan(std::min(header.padding_bytes(), in.size()));
    header.payload_bytes = std::min<uint64_t>(header.payload_bytes, in.size());
    const auto payload = in.first(header.payload_bytes);
    in = in.subspan(payload.size());
    header.body_crc = Crc32c(payload, Crc32c(flatbuffer));
    std::array<std::byte, proto::kFrameHeaderBytes> head;
    proto::EncodeFrameHeader(header, head);
    out.insert(out.end(), head.begin(), head.end());
    out.insert(out.end(), flatbuffer.begin(), flatbuffer.end());
    out.insert(out.end(), header.padding_bytes(), std::byte());
    out.insert(out.end(), payload.begin(), payload.end());
  }
  return out;
}

Bytes Flatten(const proto::EncodedMessage& encoded) {
  Bytes bytes = encoded.head;
  for (const auto& part : encoded.payload.parts) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

/// Gives the reader as much as it asks for, `piece` bytes at most. Requires: it asks for some.
std::span<const std::byte> Feed(
    net::FrameReader& reader, std::span<const std::byte> bytes, size_t piece) {
  std::array<iovec, 2> targets;
  const size_t count = reader.Targets(targets);
  size_t fed = 0;
  for (size_t i = 0; i < count && fed < piece; ++i) {
    const size_t size = std::min({targets[i].iov_len, piece - fed, bytes.size() - fed});
    std::memcpy(targets[i].iov_base, bytes.data() + fed, size);
    fed += size;
  }
  PS_CHECK(fed > 0) << "a reader that waits asks for bytes";
  reader.Filled(fed);
  return bytes.subspan(fed);
}

/// What was understood can be sent, and is understood the same way again.
void CheckAgain(const proto::Message& message) {
  const Bytes bytes = Flatten(proto::EncodeMessage(message, 1));
  net::FrameReader reader({}, std::make_shared<net::BufferPool>(0));
  std::span<const std::byte> rest = bytes;
  Result<std::optional<net::FrameReader::Frame>> frame = reader.Next();
  while (frame.ok() && !frame->has_value() && !rest.empty()) {
    rest = Feed(reader, rest, rest.size());
    frame = reader.Next();
  }
  PS_CHECK(frame.ok() && frame->has_value()) << "an encoded message is not read back";
  PS_CHECK(Flatten(proto::EncodeMessage((*frame)->message, 1)) == bytes);
  if (const auto* status = std::get_if<proto::StatusReply>(&message)) {
    const auto json = ParseJson(proto::StatusToJson(status->status), "status");
    PS_CHECK(json.ok()) << json.status();
  }
}

}  // namespace

bool FuzzFrames(std::span<const uint8_t> input) {
  if (input.empty()) {
    return false;
  }
  const uint8_t how = input[0];
  std::span<const std::byte> bytes = std::as_bytes(input.subspan(1));
  Bytes right;
  if (how % 2 == 0) {
    right = PutRight(bytes);
    bytes = right;
  }
  const size_t piece = how / 2 == 0 ? bytes.size() + 1 : how / 2;
  // So small that a wrong length is refused, not allocated.
  const proto::FrameLimits limits{.header_bytes_max = 1U << 16, .payload_bytes_max = 1U << 16};
  net::FrameReader reader(limits, std::make_shared<net::BufferPool>(1U << 16));
  bool is_taken = false;
  while (true) {
    const Result<std::optional<net::FrameReader::Frame>> frame = reader.Next();
    if (!frame.ok()) {
      return is_taken;
    }
    if (frame->has_value()) {
      is_taken = true;
      CheckAgain((*frame)->message);
    } else if (bytes.empty()) {
      return is_taken;
    } else {
      bytes = Feed(reader, bytes, piece);
    }
  }
}

}  // namespace ps::fuzz
