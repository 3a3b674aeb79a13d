#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

/// 1, 2, ...; grows over the whole life of a path, across runs that resume it. 0 means none. A
/// number whose checkpoint was given up is not used again.
using CheckpointId = uint64_t;

/// Optimizer state buffers of a chunk, at most.
inline constexpr size_t kSlotsMax = 2;

/// Elements of a chunk, at most.
inline constexpr uint32_t kChunkElementsMax = 1U << 28;

/// Where the bytes of a chunk are: in the record that checkpoint `written` wrote. A checkpoint
/// whose chunk did not change since refers to the same record.
struct ChunkRef {
  ChunkKey key;
  Version version = 0;
  CheckpointId written = 0;
  CheckpointId base = 0;    // oldest record that reading it needs: `written` unless it is a delta
  uint32_t depth = 0;       // deltas between `base` and `written`
  uint32_t slot_count = 0;  // optimizer buffers beside the value
  uint32_t element_count = 0;
  uint32_t crc = 0;           // CRC-32C of value and slots
  uint32_t stored_bytes = 0;  // of the record

  /// What value and slots take in memory.
  uint64_t logical_bytes() const {
    return uint64_t{element_count} * sizeof(float) * (1 + slot_count);
  }

  friend bool operator==(const ChunkRef&, const ChunkRef&) = default;
};

/// What one shard contributes to a checkpoint.
struct PartRecord {
  std::vector<std::byte> state;  // the shard's own, opaque here
  std::vector<ChunkRef> chunks;  // by key, each once

  friend bool operator==(const PartRecord&, const PartRecord&) = default;
};

/// Sizes of one checkpoint, of one shard or all.
struct WriteStats {
  uint64_t logical_bytes = 0;  // of all its chunks in memory
  uint64_t written_bytes = 0;  // of the records that it wrote
  uint64_t shared_bytes = 0;   // of the records that it shares with older ones
  uint64_t chunks_written = 0;
  uint64_t chunks_shared = 0;

  WriteStats& operator+=(const WriteStats& other);
  friend bool operator==(const WriteStats&, const WriteStats&) = default;
};

/// A committed part, for the manifest.
struct PartSummary {
  uint64_t bytes = 0;  // of the part record
  uint32_t crc = 0;    // CRC-32C of the part record
  WriteStats stats;

  friend bool operator==(const PartSummary&, const PartSummary&) = default;
};

WriteStats StatsOf(CheckpointId id, std::span<const ChunkRef> chunks);

/// FORMAT.md says it to the byte. Requires: chunks by key, each once.
std::vector<std::byte> EncodePart(CheckpointId id, const PartRecord& part);

/// The opposite, for any bytes: reads nothing outside them and takes memory in proportion to them.
/// Errors: kCorruption (damaged, or of another checkpoint than `id`), kUnsupported (newer format).
Result<PartRecord> DecodePart(CheckpointId id, std::span<const std::byte> bytes);

}  // namespace ps::checkpoint
