#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include "ps/base/request_thread.h"
#include "ps/net/loop.h"
#include "ps/process/ending.h"
#include "ps/server/checkpoints/disk_work.h"
#include "ps/server/checkpoints/shard_disk.h"

namespace ps::server {

/// The disk of a shard behind a thread of its own. Thread: the loop's, but EndWithin when the loop
/// does not run any more.
class DiskThread final : public ShardDisk {
 public:
  /// What comes back, on the loop's thread.
  struct Answers {
    std::function<void(ChunkWritten)> chunk;
    std::function<void(PartWritten)> part;
    std::function<void(Restored)> restored;
  };

  /// `loop` outlives it.
  DiskThread(
      std::shared_ptr<checkpoint::Storage> storage,
      ShardId shard,
      net::Loop* loop,
      Answers answers);

  /// Waits for what is being written or read for as long as it takes.
  ~DiskThread() override;

  /// As the destructor, which is all that may follow, but a disk that gives no answer holds up
  /// nobody for longer than this. Returns false when it still has the thread and what it has open:
  /// they go when it answers, and the process is to end without waiting for them
  /// (EndWithoutCleanup).
  bool EndWithin(Duration limit);

  void Use(DiskPlace place) override { thread_.Add(std::move(place)); }

  void Release(ReleaseRequest what) override { thread_.Add(std::move(what)); }

  void Write(ChunkWrite write) override { thread_.Add(std::move(write)); }

  void Commit(PartWrite write) override { thread_.Add(std::move(write)); }

  void Restore(RestoreRequest what) override { thread_.Add(std::move(what)); }

 private:
  using Request = std::variant<DiskPlace, ReleaseRequest, ChunkWrite, PartWrite, RestoreRequest>;

  class Desk;

  const std::shared_ptr<Ending> ending_;
  RequestThread<Request> thread_;
};

}  // namespace ps::server
