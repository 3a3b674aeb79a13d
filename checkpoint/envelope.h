#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/bytes.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

enum class RecordKind : uint16_t { kChunk = 1, kPart = 2, kManifest = 3, kIndex = 4 };

/// The newest format of such a record that is read. FORMAT.md. Records say the oldest one that has
/// all they need.
constexpr uint16_t NewestFormat(RecordKind kind) {
  return kind == RecordKind::kChunk ? 2 : 1;
}

inline constexpr size_t kEnvelopeBytes = 24;

/// Begins a record; the body follows, then SealEnvelope.
void PutEnvelope(ByteWriter* record, RecordKind kind, uint64_t id, uint16_t version = 1);

/// Sets the checksum over all that was put.
void SealEnvelope(ByteWriter* record);

/// Checks the first `bytes` of a record: kind, version, checkpoint, checksum. Returns the body.
/// Errors: kUnsupported (newer format), kCorruption.
Result<std::span<const std::byte>> OpenEnvelope(
    std::span<const std::byte> bytes, RecordKind kind, uint64_t id);

}  // namespace ps::checkpoint
