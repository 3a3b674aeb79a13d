// Initial values that the job has in a file, and shards pull.

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "ps/coordinator/state/model_files.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

/// Elements have the values that the harness' shards say.
class FakeSource final : public ModelSource {
 public:
  Status Read(uint32_t tensor, int64_t begin, std::span<float> out) override {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = Harness::ValueOf(tensor, begin + static_cast<int64_t>(i));
    }
    return error;
  }

  Status error;
};

class InitialValuesTest : public ::testing::Test {
 protected:
  InitialValuesTest() : harness_(OptionsWith(&source_)) {
    harness_.core->Start(harness_.now);
    harness_.shards[0].is_mute = true;
    harness_.RegisterShard(0, 500);
  }

  static CoordinatorOptions OptionsWith(ModelSource* source) {
    CoordinatorOptions options = SmallJob();
    options.model_source = source;
    options.config.servers.frame_kib = 1;
    options.config.servers.chunk_kib = 2;
    return options;
  }

  void Pull(const std::vector<ChunkKey>& held = {}) {
    proto::PullRequest pull;
    for (const ChunkKey key : held) {
      pull.held.push_back({key, 0});
    }
    harness_.shards[0].is_mute = false;
    harness_.Give(harness_.shards[0].peer, pull);
  }

  /// Those of shard 0, by chunk; checks the values.
  std::map<ChunkKey, uint32_t> Came() {
    std::map<ChunkKey, uint32_t> elements;
    for (const proto::PullReply& reply : std::exchange(harness_.shards[0].values, {})) {
      EXPECT_LE(reply.payload.size(), 1024U);
      const auto* value = reinterpret_cast<const float*>(reply.payload.bytes().data());
      for (const proto::PullReply::Chunk& chunk : reply.chunks) {
        elements[chunk.key] += chunk.element_count;
        const int64_t begin = 512 * int64_t{IndexOf(chunk.key)} + chunk.element_begin;
        for (uint32_t i = 0; i < chunk.element_count; ++i) {
          EXPECT_EQ(*value++, Harness::ValueOf(TensorOf(chunk.key), begin + i));
        }
      }
    }
    return elements;
  }

  static uint32_t IndexOf(ChunkKey key) {
    return static_cast<uint32_t>(key.value - MakeChunkKey(TensorOf(key), 0).value);
  }

  FakeSource source_;
  Harness harness_;
};

TEST_F(InitialValuesTest, AShardIsToldToPullAndGetsItsChunks) {
  const auto* setup = std::get_if<proto::ShardSetup>(&harness_.shards[0].unanswered.at(0));
  ASSERT_NE(setup, nullptr);
  EXPECT_TRUE(setup->has_values);
  Pull();
  std::map<ChunkKey, uint32_t> own;
  for (const proto::ChunkAssignment& chunk : setup->placement.chunks) {
    if (chunk.shard == ShardId(0)) {
      own[chunk.key] = chunk.element_count;
    }
  }
  EXPECT_FALSE(own.empty());
  EXPECT_EQ(Came(), own);
  Pull({own.begin()->first});
  own.erase(own.begin());
  EXPECT_EQ(Came(), own) << "what is held need not come again";
}

TEST_F(InitialValuesTest, AShardThatReadsSlowlyGetsNoMoreThanItTakes) {
  harness_.slow.insert(harness_.shards[0].peer);
  Pull();
  EXPECT_TRUE(Came().empty());
  harness_.slow.clear();
  harness_.core->OnDrained(harness_.shards[0].peer, harness_.now, harness_.out());
  harness_.Wait(harness_.timing.tick);
  EXPECT_FALSE(Came().empty());
}

TEST_F(InitialValuesTest, AFileThatCanNotBeReadFailsTheJob) {
  source_.error = Status::Corruption("x.safetensors ends at byte 7");
  Pull();
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
  EXPECT_EQ(harness_.status().detail, "model.from: x.safetensors ends at byte 7");
}

TEST_F(InitialValuesTest, AJobWithoutAFileHasNoneToPull) {
  Harness harness;
  harness.StartWithShards();
  harness.Give(harness.shards[0].peer, proto::PullRequest{});
  EXPECT_TRUE(harness.shards[0].values.empty());
}

}  // namespace
}  // namespace ps::coordinator
