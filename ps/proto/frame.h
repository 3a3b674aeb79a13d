#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/status.h"
#include "ps/proto/limits.h"

namespace ps::proto {

/// What goes over a socket: header, FlatBuffers bytes, payload. Byte layout: PROTOCOL.md.
inline constexpr uint32_t kFrameMagic = 0x50535053;  // "SPSP" as little-endian bytes
inline constexpr uint16_t kProtocolVersion = 20;
inline constexpr size_t kFrameHeaderBytes = 40;
/// Zero bytes after the FlatBuffers part make the payload start at a multiple of this in the frame.
inline constexpr size_t kPayloadAlignment = 64;

/// Checked before any memory is taken.
struct FrameLimits {
  uint32_t header_bytes_max = kHeaderBytesMax;  // FlatBuffers part
  uint64_t payload_bytes_max = kPayloadBytesMax;
};

struct FrameHeader {
  uint16_t version = kProtocolVersion;
  uint16_t type = 0;          // MessageType
  uint32_t flags = 0;         // reserved, 0
  uint32_t header_bytes = 0;  // FlatBuffers part, without padding
  uint64_t payload_bytes = 0;
  uint64_t request_id = 0;  // a reply carries its request's
  uint32_t body_crc = 0;    // CRC-32C of FlatBuffers part and payload, padding left out

  // The CRC-32C of the 36 header bytes before it is the last field on the wire.

  /// Zero bytes between the FlatBuffers part and the payload.
  size_t padding_bytes() const {
    const size_t end = kFrameHeaderBytes + header_bytes;
    return payload_bytes == 0 ? 0
                              : (kPayloadAlignment - end % kPayloadAlignment) % kPayloadAlignment;
  }
};

void EncodeFrameHeader(const FrameHeader& header, std::span<std::byte, kFrameHeaderBytes> out);

/// Errors: kCorruption (magic, header CRC), kUnsupported (version, with both numbers in the text),
/// kInvalidArgument (a length over its limit, flags set, unknown type).
Result<FrameHeader> DecodeFrameHeader(
    std::span<const std::byte, kFrameHeaderBytes> bytes, const FrameLimits& limits);

/// The tensor bytes of a message, as a list of parts for scatter-gather I/O.
/// With an owner, parts live as long as the owner. Without, they are borrowed from the sender and a
/// transport must have sent or copied them before its Send returns.
struct Payload {
  std::vector<std::span<const std::byte>> parts;
  std::shared_ptr<const void> owner;

  uint64_t size() const {
    uint64_t n = 0;
    for (const auto& part : parts) {
      n += part.size();
    }
    return n;
  }

  /// The only part, as a received message has it. Requires: at most one part.
  std::span<const std::byte> bytes() const {
    PS_CHECK(parts.size() <= 1) << "payload has " << parts.size() << " parts";
    return parts.empty() ? std::span<const std::byte>() : parts.front();
  }

  /// Takes over the memory of a received payload of one part, instead of copying it. Returns an
  /// empty buffer and leaves the payload as it is if somebody else holds it too, or if it is not
  /// aligned as a Buffer is.
  Buffer TakeBuffer() {
    const std::span<const std::byte> part = bytes();
    const bool is_aligned = reinterpret_cast<uintptr_t>(part.data()) % kBufferAlignment == 0;
    if (owner.use_count() != 1 || !is_aligned) {
      return {};
    }
    parts.clear();
    // The network allocates the memory of what it receives, and nobody else holds this.
    return Buffer(
        const_cast<std::byte*>(part.data()),
        part.size(),
        std::const_pointer_cast<void>(std::exchange(owner, nullptr)));
  }

  static Payload Own(std::shared_ptr<const Buffer> buffer, size_t size_bytes) {
    Payload payload;
    payload.parts.push_back(buffer->bytes().first(size_bytes));
    payload.owner = std::move(buffer);
    return payload;
  }
};

}  // namespace ps::proto
