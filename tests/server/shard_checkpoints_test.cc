#include "ps/server/checkpoints/shard_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/proto/state/shard_state.h"
#include "tests/server/shard_tables.h"

namespace ps::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ShardCheckpointsTest : public ::testing::Test {
 protected:
  explicit ShardCheckpointsTest(proto::Mode mode = proto::Mode::kAsync) : tables_(mode) {
    disk_.Use({"path", {}, 0});
    coordinator_.OnConnected(kCoordinator, 1, tables_.now, &tables_.sent);
    checkpoints_.BeginLife(0, ChunkRefs(tables_.store.size()), {});
    tables_.sent.all.clear();
  }

  void Request(uint64_t checkpoint, uint64_t round = 0) {
    checkpoints_.OnRequest(tables_.From(kCoordinator), {checkpoint, round, {}});
  }

  ShardTables tables_;
  checkpoint::MemoryStorage storage_;
  RigDisk disk_{&storage_};
  CoordinatorLink coordinator_{{kShard, "host", 1, 1, 0, LaunchId()}, tables_.life, NullLogger()};
  ShardCheckpoints checkpoints_{
      tables_.life,
      tables_.store,
      tables_.rounds,
      tables_.schedule,
      tables_.steps,
      coordinator_,
      &disk_,
      NullLogger()};
};

TEST_F(ShardCheckpointsTest, ItsStateSaysWhatIsAppliedOfWhoseSteps) {
  proto::PushRequest push = tables_.Frame(2, 1, {kSecond}, 0.25F);
  tables_.pushes.OnPush(tables_.From(PeerOf(1)), push);
  Request(1);
  while (!disk_.requests.empty()) {
    const RigDisk::Request request = std::move(disk_.requests.front());
    disk_.requests.pop_front();
    if (const auto* const chunk = std::get_if<ChunkWrite>(&request)) {
      checkpoints_.OnChunkWritten(disk_.work.Do(*chunk), &tables_.sent);
    } else if (const auto* const part = std::get_if<PartWrite>(&request)) {
      const proto::ShardState state = proto::DecodeShardState(part->record.state).value();
      ASSERT_THAT(state.members, SizeIs(3));
      EXPECT_THAT(state.members[1].applied, ::testing::ElementsAre(kSecond));
      checkpoints_.OnPartWritten(disk_.work.Do(*part), &tables_.sent);
    }
  }
  const auto reports = tables_.Take<proto::CheckpointReport>();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].code, StatusCode::kOk) << reports[0].message;
  Request(1);
  EXPECT_THAT(tables_.Take<proto::CheckpointReport>(), SizeIs(1)) << "it is told again";
}

class BspShardCheckpointsTest : public ShardCheckpointsTest {
 protected:
  BspShardCheckpointsTest() : ShardCheckpointsTest(proto::Mode::kBsp) {}

  void Commit(uint64_t round) {
    const proto::CommitRound commit{round, {}};
    ASSERT_EQ(
        tables_.rounds.Admit(tables_.From(kCoordinator), commit, false),
        Rounds::Admission::kBegins);
    tables_.rounds.Begin(commit);
    while (!tables_.rounds.Continue()) {
    }
  }
};

TEST_F(BspShardCheckpointsTest, OneOfALaterRoundWaitsForIt) {
  Request(1, 1);
  checkpoints_.OnRound(&tables_.sent);
  EXPECT_THAT(disk_.requests, IsEmpty());
  Commit(1);
  checkpoints_.OnRound(&tables_.sent);
  EXPECT_FALSE(disk_.requests.empty());
}

TEST_F(BspShardCheckpointsTest, OneOfARoundThatIsOverFails) {
  Commit(1);
  Commit(2);
  Request(1, 1);
  const auto reports = tables_.Take<proto::CheckpointReport>();
  ASSERT_THAT(reports, SizeIs(1));
  EXPECT_EQ(reports[0].code, StatusCode::kUnavailable);
  EXPECT_THAT(
      reports[0].message, HasSubstr("round 1 was to be written, and shard 3 is at round 2"));
}

TEST_F(BspShardCheckpointsTest, OneThatWaitsIsForgottenWithTheMode) {
  Request(1, 1);
  checkpoints_.DropDue();
  Commit(1);
  checkpoints_.OnRound(&tables_.sent);
  EXPECT_THAT(disk_.requests, IsEmpty());
}

}  // namespace
}  // namespace ps::server
