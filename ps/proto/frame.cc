// Byte layout: PROTOCOL.md, "Frame header". Read and written byte by byte, so that neither the
// machine's byte order nor a struct's padding can reach the wire.

#include "ps/proto/frame.h"

#include <fmt/core.h>

#include <string>

#include "ps/base/crc32c.h"
#include "ps/proto/messages.h"

namespace ps::proto {
namespace {

// What a TLS connection begins with (RFC 8446, 5.1).
constexpr std::byte kTlsHandshake{22};
constexpr std::byte kTlsVersion{3};
constexpr size_t kMagicOffset = 0;
constexpr size_t kVersionOffset = 4;
constexpr size_t kTypeOffset = 6;
constexpr size_t kFlagsOffset = 8;
constexpr size_t kHeaderBytesOffset = 12;
constexpr size_t kPayloadBytesOffset = 16;
constexpr size_t kRequestIdOffset = 24;
constexpr size_t kBodyCrcOffset = 32;
constexpr size_t kHeaderCrcOffset = 36;

template <typename T>
void Store(std::span<std::byte, kFrameHeaderBytes> out, size_t offset, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out[offset + i] = static_cast<std::byte>((static_cast<uint64_t>(value) >> (8 * i)) & 0xff);
  }
}

template <typename T>
T Load(std::span<const std::byte, kFrameHeaderBytes> bytes, size_t offset) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<uint64_t>(bytes[offset + i]) << (8 * i);
  }
  return static_cast<T>(value);
}

Status OverLimit(const char* what, uint64_t bytes, uint64_t bytes_max) {
  return Status::InvalidArgument(
      fmt::format("frame {} of {} bytes is over the limit of {}", what, bytes, bytes_max));
}

}  // namespace

void EncodeFrameHeader(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out) {
  Store(out, kMagicOffset, kFrameMagic);
  Store(out, kVersionOffset, header.version);
  Store(out, kTypeOffset, header.type);
  Store(out, kFlagsOffset, header.flags);
  Store(out, kHeaderBytesOffset, header.header_bytes);
  Store(out, kPayloadBytesOffset, header.payload_bytes);
  Store(out, kRequestIdOffset, header.request_id);
  Store(out, kBodyCrcOffset, header.body_crc);
  Store(out, kHeaderCrcOffset, Crc32c(out.first<kHeaderCrcOffset>()));
}

Result<FrameHeader> DecodeFrameHeader(
    std::span<const std::byte, kFrameHeaderBytes> bytes, const FrameLimits& limits) {
  if (Load<uint32_t>(bytes, kMagicOffset) != kFrameMagic) {
    if (bytes[0] == kTlsHandshake && bytes[1] == kTlsVersion) {
      return Status::InvalidArgument(
          "TLS, and this run's connections are not encrypted (run.tls): use its token file as it "
          "is now");
    }
    return Status::Corruption("not a frame: wrong magic number");
  }
  // Before the version: a flipped bit must not read as "please update".
  if (Load<uint32_t>(bytes, kHeaderCrcOffset) != Crc32c(bytes.first<kHeaderCrcOffset>())) {
    return Status::Corruption("frame header checksum does not match");
  }
  FrameHeader header;
  header.version = Load<uint16_t>(bytes, kVersionOffset);
  if (header.version != kProtocolVersion) {
    return Status::Unsupported(fmt::format(
        "the peer speaks protocol version {}, this program speaks {}; run the same "
        "release on both sides",
        header.version,
        kProtocolVersion));
  }
  header.type = Load<uint16_t>(bytes, kTypeOffset);
  header.flags = Load<uint32_t>(bytes, kFlagsOffset);
  header.header_bytes = Load<uint32_t>(bytes, kHeaderBytesOffset);
  header.payload_bytes = Load<uint64_t>(bytes, kPayloadBytesOffset);
  header.request_id = Load<uint64_t>(bytes, kRequestIdOffset);
  header.body_crc = Load<uint32_t>(bytes, kBodyCrcOffset);
  if (header.type == 0 || header.type > kMessageTypeMax) {
    return Status::InvalidArgument(fmt::format("unknown message type {}", header.type));
  }
  if (header.flags != 0) {
    return Status::InvalidArgument(fmt::format("unknown frame flags {}", header.flags));
  }
  if (header.header_bytes > limits.header_bytes_max) {
    return OverLimit("header", header.header_bytes, limits.header_bytes_max);
  }
  if (header.payload_bytes > limits.payload_bytes_max) {
    return OverLimit("payload", header.payload_bytes, limits.payload_bytes_max);
  }
  return header;
}

}  // namespace ps::proto
