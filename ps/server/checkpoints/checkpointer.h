#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/server/checkpoints/shard_disk.h"
#include "ps/server/checkpoints/snapshot.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/chunks/reindexing.h"

namespace ps::server {

/// What a shard has of a checkpoint in memory.
struct HeldPart {
  std::vector<std::byte> state;
  std::map<ChunkKey, RestoredPart::Chunk> chunks;
};

/// Writes checkpoints of one shard: at most one at a time, while its parameters change. Knows what
/// of them is on the disk. Thread: the shard's.
class Checkpointer {
 public:
  /// `disk` outlives it; null: there is none, and every checkpoint fails.
  Checkpointer(ShardId shard, ShardDisk* disk) : shard_(shard), disk_(disk) {}

  /// The shard begins a life with these chunks, as checkpoint `from` has them and `state`; what an
  /// earlier life asked of the disk is forgotten.
  void BeginLife(
      uint64_t life,
      checkpoint::CheckpointId from,
      ChunkRefs refs,
      std::vector<std::byte> state = {});

  /// Takes out of the store the chunks that have not changed since the checkpoint: a life that
  /// begins from it need not read them. There are none unless it is the newest checkpoint.
  /// Optimizer slots keep their full precision, also where the disk has fewer bits. BeginLife
  /// follows.
  HeldPart TakeHeld(checkpoint::CheckpointId checkpoint, ChunkStore* store);

  /// Begins a checkpoint of the parameters as they are now. One that is under way is given up.
  /// `state` is the rest of what the shard must remember.
  void Begin(
      const proto::CheckpointRequest& request,
      std::vector<std::byte> state,
      const ChunkStore& store);
  /// Gives up the checkpoint under way when the disk has finished no request for `patience`.
  /// Returns true when it did: a report is ready. `pause`: how long the process did not run just
  /// now, which is not the disk's fault. Until the disk answers, later checkpoints fail at once, so
  /// that what waits for it in memory does not grow.
  bool GiveUpIfStalled(TimePoint now, Duration pause, Duration patience);
  /// The checkpoint can't be made.
  void Fail(uint64_t checkpoint, const Status& why);

  /// Requires: BeginLife, with as many chunks as `store` has.
  void BeforeUpdate(const ChunkStore& store, size_t chunk) {
    held_[chunk] = {};
    if (snapshot_) {
      snapshot_->BeforeUpdate(store, chunk);
    }
  }

  /// Chunks have come or gone: those that have come are written anew. A checkpoint under way is
  /// given up.
  void Reindex(const Reindexing& chunks);

  // Each returns whether a report has become ready.
  bool OnChunkWritten(const ChunkStore& store, ChunkWritten written);
  bool OnPartWritten(PartWritten written);

  /// The checkpoint is under way.
  bool IsOpen(uint64_t checkpoint) const { return open_ && open_->checkpoint == checkpoint; }

  /// A later one was begun, so the request for this one is old.
  bool IsOvertaken(uint64_t checkpoint) const { return checkpoint < newest_write_; }

  /// Newest report; `checkpoint` 0 when there is none.
  const proto::CheckpointReport& report() const { return report_; }

 private:
  /// Frees the disk space of checkpoints that were given up, if that is worth it: the disk was
  /// full, or a whole part is there. The chunks of the present one are written again.
  void ReleaseGivenUp(const proto::CheckpointRequest& request);
  void WriteMore(const ChunkStore& store);
  void FailBy(uint64_t checkpoint, const Status& why);

  void NoteAnswer() {
    ++answers_;
    stalled_.reset();
  }

  const ShardId shard_;
  ShardDisk* const disk_;

  /// Whether a chunk is as the checkpoint has it.
  struct Held {
    bool by_newest = false;
    bool by_open = false;
  };

  uint64_t life_ = 0;
  uint64_t newest_write_ = 0;  // the checkpoint that was begun last
  uint64_t first_write_ = 0;   // the first one whose writes name chunks by these indices
  ChunkRefs refs_;
  checkpoint::CheckpointId newest_part_ = 0;  // of this life, or what it began from
  std::vector<std::byte> newest_state_;       // of that
  bool has_disk_failed_ = false;              // since the newest part
  std::vector<Held> held_;                    // by chunk
  std::optional<PartWrite> open_;             // the checkpoint under way
  std::optional<Snapshot> snapshot_;
  std::map<size_t, Snapshot::Image> out_;  // by chunk
  uint64_t copied_bytes_ = 0;
  uint64_t answers_ = 0;                  // of the disk, ever
  uint64_t answers_seen_ = 0;             // at progress_at_
  std::optional<TimePoint> progress_at_;  // of the one under way
  std::optional<uint64_t> stalled_;       // the checkpoint that was given up; the disk says nothing
  proto::CheckpointReport report_;
};

}  // namespace ps::server
