#pragma once

#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "ps/base/request_thread.h"
#include "ps/net/loop.h"
#include "ps/server/checkpoints/disk_work.h"
#include "ps/server/checkpoints/shard_disk.h"

namespace ps::server {

/// The disk of a shard behind a thread of its own. Thread: the loop's.
class DiskThread final : public ShardDisk {
 public:
  /// What comes back, on the loop's thread.
  struct Answers {
    std::function<void(ChunkWritten)> chunk;
    std::function<void(PartWritten)> part;
    std::function<void(Restored)> restored;
  };

  /// `storage` and `loop` outlive it.
  DiskThread(checkpoint::Storage* storage, ShardId shard, net::Loop* loop, Answers answers);

  void Use(DiskPlace place) override;

  void Release(ReleaseRequest what) override { thread_.Add(std::move(what)); }

  void Write(ChunkWrite write) override { thread_.Add(std::move(write)); }

  void Commit(PartWrite write) override { thread_.Add(std::move(write)); }

  void Restore(RestoreRequest what) override { thread_.Add(std::move(what)); }

 private:
  using Request = std::variant<DiskPlace, ReleaseRequest, ChunkWrite, PartWrite, RestoreRequest>;

  void Do(Request request);
  void Answer(const std::function<void()>& deliver);

  net::Loop* const loop_;
  const Answers answers_;
  DiskWork work_;  // the thread's
  RequestThread<Request> thread_;
};

}  // namespace ps::server
