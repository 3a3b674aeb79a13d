#pragma once

#include <memory>
#include <string>

#include "checkpoint/shard_store.h"
#include "checkpoint/storage/storage.h"
#include "ps/server/checkpoints/shard_disk.h"

namespace ps::server {

/// Does what a ShardDisk is asked for, and waits for it. Thread: any one at a time.
class DiskWork {
 public:
  /// `storage` outlives it.
  DiskWork(checkpoint::Storage* storage, ShardId shard) : storage_(storage), shard_(shard) {}

  void Use(DiskPlace place);

  /// Best effort: a disk that is too full even for that fails the next checkpoint, too.
  void Do(const ReleaseRequest& request);

  ChunkWritten Do(const ChunkWrite& write);
  PartWritten Do(const PartWrite& write);
  /// Errors: those of ShardStore; kCorruption when a chunk is in no part of the checkpoint;
  /// kUnavailable when the directory on this host is not the one that the coordinator writes to.
  Restored Do(const RestoreRequest& request);

 private:
  /// A shard's part of a checkpoint, and where it is.
  struct FoundPart {
    checkpoint::PartRecord part;
    std::unique_ptr<checkpoint::ShardStore> other;  // when it is not in `own_`
  };

  /// The store that is written to. One that is too damaged for that stays as it is for those who
  /// read, and a fresh one is begun beside it.
  Result<checkpoint::ShardStore*> Own();
  /// Errors: damage (IsDamage) only when every directory of the shard could be looked into.
  Result<FoundPart> FindPart(ShardId from, checkpoint::CheckpointId checkpoint);
  Result<checkpoint::ChunkRef> Put(const ChunkWrite& write);
  Result<RestoredPart> Restore(const RestoreRequest& request);
  Status CheckStored(ShardId shard, checkpoint::CheckpointId checkpoint) const;
  Status Explain(Status why, checkpoint::CheckpointId checkpoint) const;

  checkpoint::Storage* const storage_;
  const ShardId shard_;
  DiskPlace place_;
  std::unique_ptr<checkpoint::ShardStore> own_;  // once needed
  std::string directory_;                        // of own_
};

}  // namespace ps::server
