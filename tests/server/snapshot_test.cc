#include "ps/server/checkpoints/snapshot.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

/// Three chunks of ones, of 8, 8 and 12 bytes, and momentum beside them.
class SnapshotTest : public testing::Test {
 protected:
  SnapshotTest() {
    rig_.settings.optimizer.momentum = 0.5F;
    Result<ChunkStore> store = ChunkStore::Make(kShard, rig_.settings, rig_.setup);
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = std::move(store).value();
    store_.SetBeforeUpdate([this](size_t chunk) {
      if (snapshot_ != nullptr) {
        snapshot_->BeforeUpdate(store_, chunk);
      }
    });
  }

  void Update(size_t chunk) {
    const std::vector<float> ones(static_cast<size_t>(store_.chunks()[chunk].element_count), 1.0F);
    EXPECT_TRUE(store_.Apply(chunk, 0, ones, {1}));
    store_.FinishUpdate(chunk);
  }

  ShardRig rig_;
  ChunkStore store_;
  Snapshot* snapshot_ = nullptr;
};

TEST_F(SnapshotTest, HasTheValuesOfItsMomentWhateverChangesLater) {
  Snapshot snapshot(store_, ChunkRefs(3), 1);
  snapshot_ = &snapshot;
  Update(1);
  Update(1);
  for (const size_t expected : {1U, 0U, 2U}) {
    const auto image = snapshot.Take(store_);
    ASSERT_TRUE(image.has_value());
    EXPECT_EQ(image->chunk, expected) << "what was copied for a change goes first";
    EXPECT_EQ(image->data->version, 0U);
    EXPECT_EQ(image->data->value.floats()[0], 1.0F);
    EXPECT_EQ(image->data->slots[0].floats()[0], 0.0F);
    EXPECT_FALSE(snapshot.Take(store_).has_value()) << "one byte may be out";
    EXPECT_FALSE(snapshot.is_done());
    snapshot.Return(*image);
  }
  EXPECT_TRUE(snapshot.is_done());
  EXPECT_EQ(store_.chunks()[1].version, 2U);
}

TEST_F(SnapshotTest, LeavesOutWhatIsWrittenAlready) {
  ChunkRefs refs(3);
  refs[0] = checkpoint::ChunkRef{.key = kFirst, .version = 0};
  refs[2] = checkpoint::ChunkRef{.key = kThird, .version = 7};
  Snapshot snapshot(store_, refs, 1 << 20);
  EXPECT_EQ(snapshot.Take(store_)->chunk, 1U);
  EXPECT_EQ(snapshot.Take(store_)->chunk, 2U) << "another version of it is written";
  EXPECT_FALSE(snapshot.Take(store_).has_value());
}

TEST_F(SnapshotTest, CountsTheMemoryOfItsCopies) {
  Snapshot snapshot(store_, ChunkRefs(3), 1);
  snapshot_ = &snapshot;
  Update(0);
  Update(2);
  EXPECT_EQ(snapshot.copied_bytes_max(), 2 * (8U + 12U)) << "value and momentum";
}

}  // namespace
}  // namespace ps::server
