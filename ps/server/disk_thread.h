#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <variant>

#include "ps/net/loop.h"
#include "ps/server/disk_work.h"
#include "ps/server/shard_disk.h"

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
  /// Waits for the request that is being worked on; the others are dropped.
  ~DiskThread() override;

  void Use(std::string path, checkpoint::Codec codec) override;

  void Write(ChunkWrite write) override { Add(std::move(write)); }

  void Commit(PartWrite write) override { Add(std::move(write)); }

  void Restore(RestoreRequest what) override { Add(std::move(what)); }

 private:
  struct Place {
    std::string path;
    checkpoint::Codec codec = checkpoint::Codec::kZstd;
  };

  using Request = std::variant<Place, ChunkWrite, PartWrite, RestoreRequest>;

  void Add(Request request);
  void Run();
  void Answer(std::function<void()> deliver);

  net::Loop* const loop_;
  const Answers answers_;
  DiskWork work_;  // the thread's

  std::mutex mutex_;
  std::condition_variable wake_;
  // Under the mutex. The core has a bounded number of requests under way.
  std::deque<Request> requests_;
  bool is_ending_ = false;

  std::thread thread_;
};

}  // namespace ps::server
