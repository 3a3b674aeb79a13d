#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/part.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

/// Value and slots.
inline constexpr size_t kBuffersMax = 1 + kSlotsMax;

/// How one buffer of a chunk is stored.
enum class Encoding : uint8_t {
  kRaw = 0,    // as in memory
  kPlain = 1,  // bytes of equal place together, zstd
  kDelta = 2,  // exclusive or with the previous record's buffer, then as kPlain
  kBf16 = 3,   // the upper two bytes of each word, where the lower two are zero; from format 2 on
};

inline constexpr size_t kChunkHeadBytes = 80;

/// What a chunk record says before its data.
struct ChunkHead {
  ChunkKey key;
  CheckpointId written = 0;
  CheckpointId previous = 0;  // record whose values the deltas begin from; 0: no buffer is a delta
  Version version = 0;
  uint32_t element_count = 0;
  uint32_t crc = 0;  // CRC-32C of all buffers, as in memory
  uint32_t buffer_count = 0;
  uint32_t depth = 0;  // deltas to be applied
  std::array<Encoding, kBuffersMax> encodings{};
  std::array<uint32_t, kBuffersMax> stored_bytes{};

  friend bool operator==(const ChunkHead&, const ChunkHead&) = default;
};

/// kChunkHeadBytes bytes; the stored buffers follow.
std::vector<std::byte> EncodeChunkHead(const ChunkHead& head);

/// A record taken apart.
struct ChunkView {
  ChunkHead head;
  std::array<std::span<const std::byte>, kBuffersMax> stored;  // into the record
};

/// For any bytes. Errors: kCorruption, kUnsupported (newer format).
Result<ChunkView> ViewChunkRecord(
    ChunkKey key, CheckpointId written, std::span<const std::byte> record);

}  // namespace ps::checkpoint
