#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/retry.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"

namespace ps::coordinator {

/// One server shard as the coordinator sees it.
struct Shard {
  ShardId shard;
  bool has_chunks = false;  // a shard without chunks never completes a step
  bool is_registered = false;
  bool is_ready = false;
  std::string host;
  uint32_t port = 0;
  int64_t pid = 0;
  proto::PeerId peer;  // none: not connected now
  uint64_t register_request_id = 0;
  TimePoint last_heard{};  // or when its connection was lost
  proto::ShardStats stats;
  std::vector<proto::Wait> waits;
  TimePoint waits_at{};

  // What it has not acknowledged is sent again when these are due.
  RetryTimer setup_timer;
  RetryTimer membership_timer;
  RetryTimer commit_timer;
  TimePoint membership_since{};
};

/// The job's shards: fixed in number, all of them needed all the time.
class ShardTable {
 public:
  ShardTable(uint32_t shard_count, uint32_t shards_per_server, const proto::Placement& placement);

  /// Null when there is no such shard.
  Shard* Find(ShardId shard);
  Shard* FindPeer(proto::PeerId peer);

  bool are_all_ready() const;

  uint32_t ServerOf(ShardId shard) const { return shard.value / shards_per_server_; }

  /// Parameters of the shard that has most of them.
  uint64_t largest_bytes() const { return largest_bytes_; }

  uint32_t size() const { return static_cast<uint32_t>(shards_.size()); }

  std::vector<Shard>& all() { return shards_; }

  const std::vector<Shard>& all() const { return shards_; }

  /// "shard 1 of server 0 (not registered)", ...: those that are not ready.
  std::string Missing() const;
  std::vector<proto::ShardAddress> Addresses() const;

 private:
  const uint32_t shards_per_server_;
  std::vector<Shard> shards_;
  uint64_t largest_bytes_ = 0;
};

}  // namespace ps::coordinator
