#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/shard_store.h"
#include "ps/base/ids.h"
#include "ps/base/status.h"

namespace ps::server {

/// A chunk to be written for a checkpoint.
struct ChunkWrite {
  uint64_t life = 0;
  checkpoint::CheckpointId checkpoint = 0;
  size_t chunk = 0;  // its index in the shard
  ChunkKey key;
  std::shared_ptr<const checkpoint::ChunkData> image;
  std::optional<checkpoint::ChunkRef> previous;  // where an older version is
};

struct ChunkWritten {
  uint64_t life = 0;
  checkpoint::CheckpointId checkpoint = 0;
  size_t chunk = 0;
  Result<checkpoint::ChunkRef> ref;
};

/// The shard's part of a checkpoint, once all its chunks are written.
struct PartWrite {
  uint64_t life = 0;
  checkpoint::CheckpointId checkpoint = 0;
  checkpoint::PartRecord record;
  std::vector<checkpoint::CheckpointId> kept;  // older ones that can still be asked for
};

struct PartWritten {
  uint64_t life = 0;
  checkpoint::CheckpointId checkpoint = 0;
  Result<checkpoint::PartSummary> summary;
  Status pruned;          // why the parts that nobody can ask for any more are still there
  std::string directory;  // where it is, in the checkpoint path
};

/// Frees what checkpoints below `next` have written and no kept one needs: they were given up.
struct ReleaseRequest {
  checkpoint::CheckpointId next = 0;
  std::vector<checkpoint::CheckpointId> kept;
};

/// Chunks to be read back, as `shards` shards wrote them.
struct RestoreRequest {
  uint64_t life = 0;
  checkpoint::CheckpointId checkpoint = 0;
  uint32_t shards = 0;
  std::vector<ChunkKey> keys;  // ascending
};

/// Whether a failure says that the checkpoint is damaged, which is the only reason to go on from an
/// older one. All others pass: a disk that gives no answer or is full, too many open files, a store
/// that somebody has locked, a directory that is not mounted. Whoever restores tries these again.
inline bool IsDamage(const Status& status) {
  return status.code() == StatusCode::kCorruption || status.code() == StatusCode::kNotFound ||
         status.code() == StatusCode::kUnsupported;
}

struct RestoredPart {
  struct Chunk {
    checkpoint::ChunkData data;
    std::optional<checkpoint::ChunkRef> ref;  // when it is in this shard's own store
  };

  std::vector<std::byte> state;  // of the first part that had one of the chunks
  std::vector<Chunk> chunks;     // in the order of the keys
};

struct Restored {
  uint64_t life = 0;
  checkpoint::CheckpointId checkpoint = 0;
  Result<RestoredPart> what;
  Status not_writable;  // why this shard's own store was read and can't be written now
};

/// Where a shard's store is, and how it is written.
struct DiskPlace {
  std::string path;
  checkpoint::ChunkFormat format;
  uint64_t bytes_per_s = 0;  // written, at most; 0: as fast as the disk
};

/// What a shard asks of its disk. Nothing here waits: each request has one answer, which comes back
/// to the core as an event, in the order of the requests; Use and Release have none.
class ShardDisk {
 public:
  virtual ~ShardDisk() = default;

  /// Comes before all else.
  virtual void Use(DiskPlace place) = 0;
  /// Gives space back before the next checkpoint is written. No ref to what goes is used any more.
  virtual void Release(ReleaseRequest what) = 0;
  virtual void Write(ChunkWrite write) = 0;       // -> ShardCore::OnChunkWritten
  virtual void Commit(PartWrite write) = 0;       // -> ShardCore::OnPartWritten
  virtual void Restore(RestoreRequest what) = 0;  // -> ShardCore::OnRestored
};

}  // namespace ps::server
