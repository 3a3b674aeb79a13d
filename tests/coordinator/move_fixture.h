#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>

#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {

/// A job whose chunks move to other servers.
class MovingTest : public FallbackTest {
 protected:
  using FallbackTest::FallbackTest;

  /// Two servers train, and so many are asked for.
  void BeginAndAsk(int32_t servers) {
    Begin();
    control_ = harness_.Connect(proto::Role::kControl);
    harness_.fleet.servers.clear();
    Scale(servers);
    ASSERT_TRUE(harness_.Take<proto::ScaleReply>(control_).has_value());
    Tick();
  }

  void Scale(int32_t servers, bool is_relative = false) {
    harness_.Give(control_, proto::ScaleRequest{{{"", servers, is_relative, true}}});
  }

  /// New shards come; they wait beside the job.
  void NewcomersCome() {
    for (size_t shard = harness_.shards.size(); shard < status().wanted; ++shard) {
      harness_.shards.emplace_back();
      harness_.RegisterShard(static_cast<uint32_t>(shard), 5000 + static_cast<int64_t>(shard));
    }
    Tick();
  }

  /// The coordinator has other shards now: all connect again, as the processes that they were.
  void AllConnect() {
    harness_.shards.resize(status().count);
    for (uint32_t i = 0; i < harness_.shards.size(); ++i) {
      harness_.RegisterShard(i, PidOf(i) != 0 ? PidOf(i) : 5000 + static_cast<int64_t>(i));
    }
    for (FakeWorker& worker : workers_) {
      harness_.Reconnect(&worker);
    }
    Tick();
  }

  void Tick() { Wait(harness_.timing.tick * 2); }

  proto::ServersStatus status() const { return harness_.status().servers; }

  std::optional<proto::ChunkMove> move() const {
    return harness_.core->StateAt(harness_.now).servers.chunks;
  }

  /// The shard that gives says that it has given.
  void Given() {
    const proto::ChunkMove now = *move();
    harness_.Give(harness_.shards[now.from.value].peer, proto::ChunksGiven{now.from, now.version});
  }

  std::set<ShardId> ShardsWithChunks() const {
    std::set<ShardId> shards;
    for (const auto& chunk : harness_.core->StateAt(harness_.now).placement.chunks) {
      shards.insert(chunk.shard);
    }
    return shards;
  }

  proto::PeerId control_;
};

}  // namespace ps::coordinator
