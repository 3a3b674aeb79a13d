#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/chunk_codec.h"
#include "checkpoint/part.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/buffer.h"
#include "ps/base/ids.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

/// How chunks are encoded. Reading knows all of them.
enum class Codec : uint8_t {
  kNone,  // as they are in memory
  kZstd,  // per buffer whatever is smallest: as it is, compressed, or a compressed delta
};

/// How the optimizer's buffers are stored. The value is always f32.
enum class SlotType : uint8_t { kF32, kBf16 };

struct ChunkFormat {
  Codec codec = Codec::kZstd;
  SlotType slots = SlotType::kF32;
};

/// Deltas on top of each other, at most: what a read may have to go through.
inline constexpr uint32_t kDeltasMax = 8;

/// A chunk as it is in memory; all buffers hold the same number of elements.
struct ChunkImage {
  ChunkKey key;
  Version version = 0;
  std::span<const float> value;
  std::array<std::span<const float>, kSlotsMax> slots;  // from the front; empty where none
};

/// A chunk as it was read.
struct ChunkData {
  Version version = 0;
  Buffer value;
  std::array<Buffer, kSlotsMax> slots;  // from the front; empty where none
};

/// "shard-3": the directory of a shard in a checkpoint path.
std::string ShardDirectory(ShardId shard);

/// Chunks and parts of one shard, of all checkpoints. How a checkpoint is written:
///
///   for each chunk: it changed since `ref` ? ref = PutChunk(k, image, &ref) : keep ref
///   CommitPart(k, {state, all refs})
///
/// and how it is read: ReadPart(k), then ReadChunk(ref) in any order; the refs are what the next
/// checkpoint begins from. A shard that owns chunks of another one's part (the number of shards
/// changed) reads them from the other's store and puts them into its own as new.
/// Thread: any one at a time; LimitWrites from any.
class ShardStore {
 public:
  /// Errors: those of Storage::Open.
  static Result<std::unique_ptr<ShardStore>> Open(
      Storage& storage, const std::string& path, ShardId shard, OpenMode mode);

  /// The same by the name of its directory in `path`, as a manifest has it.
  static Result<std::unique_ptr<ShardStore>> Open(
      Storage& storage, const std::string& path, const std::string& directory, OpenMode mode);

  /// Writes a chunk. With kBf16 slots it is read back with the slots that RoundToBf16 gives.
  /// `previous` is where this store has an older version of it, or null; with
  /// kZstd it may become the base of a delta; where it can't be read, the chunk is written in full.
  /// Blocks while the disk is behind. The record is on the disk for sure when a part was committed
  /// after it; until then the returned ref may be used in this process. Requires: at least one
  /// element; buffers of one size. Errors: kInvalidArgument as CommitPart; kIo (nothing is lost
  /// that was committed).
  Result<ChunkRef> PutChunk(
      CheckpointId id,
      const ChunkImage& image,
      const ChunkRef* previous,
      const ChunkFormat& format);

  /// When it returns, the part and every record it refers to are on the disk, synced. After a crash
  /// before that, there is no part of this number. Requires: chunks by key, each once; refs that
  /// this store gave. Errors: kInvalidArgument when there is a part of this number or a later one;
  /// kIo; kStale when the disk has failed in between and records were lost that no part refers to
  /// yet. Then this checkpoint is given up, and so are all refs with `written` above the newest
  /// part's number: their chunks are put again, without `previous`, in the next checkpoint.
  Result<PartSummary> CommitPart(CheckpointId id, const PartRecord& part);

  /// Errors: kNotFound; kCorruption; kUnsupported (newer format); kIo. All name the checkpoint.
  Result<PartRecord> ReadPart(CheckpointId id);

  /// CRC-32C of the part record as it is stored, to be compared with the manifest's. Errors: as
  /// ReadPart.
  Result<uint32_t> PartCrc(CheckpointId id);

  /// Checks what it decoded against the ref's CRC. Errors: kCorruption, kNotFound, kUnsupported,
  /// kIo; they name chunk and checkpoint.
  Result<ChunkData> ReadChunk(const ChunkRef& ref);

  /// Checkpoints that have a part here, oldest first.
  Result<std::vector<CheckpointId>> Parts();

  /// Parts of other checkpoints go, except newer ones, and every record that no part reaches any
  /// more. Their space comes back now or later. Errors: kCorruption when a kept part can't be read
  /// (then nothing goes); kIo.
  Status Retain(std::span<const CheckpointId> kept);

  /// The same of all checkpoints below `next`, which is to be written: what those that were given
  /// up had put goes as well. Refs to it are of no use from then on.
  Status Release(std::span<const CheckpointId> kept, CheckpointId next);

  /// Parts of checkpoints above `id` go: of those that ended before their manifest was written.
  /// Their numbers can be used again.
  Status ForgetAbove(CheckpointId id);

  /// Background writes stay below so many bytes a second from now on; 0: as fast as the disk.
  void LimitWrites(uint64_t bytes_per_s);

 private:
  explicit ShardStore(std::unique_ptr<Database> database, std::string name);

  Status CheckCanWrite(CheckpointId id) const;

  /// Parts up to `newest` go unless they are kept, and records up to `newest_record` that no part
  /// reaches.
  Status Keep(std::span<const CheckpointId> kept, CheckpointId newest, CheckpointId newest_record);

  Status DeleteParts(std::span<const CheckpointId> ids);

  /// To the database, and notes what a failure of the disk has cost.
  Status Write(CheckpointId id, const Change& change);

  /// Decodes the buffers that `wanted` has a bit for, from the record of checkpoint `id` and those
  /// below it, down to the last one that is no delta.
  Status Decode(const ChunkRef& ref, CheckpointId id, uint32_t wanted, ChunkData* data);

  std::unique_ptr<Database> database_;
  std::string name_;             // "shard-3", for errors
  CheckpointId newest_ = 0;      // part
  CheckpointId newest_put_ = 0;  // chunk
  CheckpointId lost_ = 0;        // records above newest_ up to here are lost
  uint64_t losses_ = 0;          // of the database, as last seen
  ChunkCodec codec_;
};

}  // namespace ps::checkpoint
