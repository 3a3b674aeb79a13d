#include "ps/server/life_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/shard_tables.h"

namespace ps::server {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class LifeStartTest : public ::testing::Test {
 protected:
  LifeStartTest() {
    coordinator_.OnConnected(kCoordinator, 1, tables_.now, &tables_.sent);
    coordinator_.OnRegistered();
    setup_.life = 2;
    tables_.sent.all.clear();
  }

  bool Open() {
    start_.Open({});
    return start_.Ask(tables_.From(kCoordinator, 30), setup_);
  }

  bool Restored(Result<RestoredPart> what) {
    return start_.OnRestored({2, 9, std::move(what), Status::Ok()}, tables_.now, &tables_.sent);
  }

  ShardTables tables_{proto::Mode::kAsync};
  proto::ShardSetup setup_ = RigSetup();
  checkpoint::MemoryStorage storage_;
  RigDisk disk_{&storage_};
  CoordinatorLink coordinator_{{kShard, "host", 1, 1, 0, LaunchId()}, tables_.life, NullLogger()};
  LifeStart start_{
      tables_.life,
      tables_.store,
      tables_.rounds,
      tables_.schedule,
      coordinator_,
      &disk_,
      NullLogger()};
};

TEST_F(LifeStartTest, ValuesThatAreDrawnAreThereAtOnce) {
  EXPECT_TRUE(Open());
  EXPECT_TRUE(start_.IsOpen(2));
  const LifeStart::Ready ready = start_.Take();
  EXPECT_EQ(ready.request_id, 30U);
  EXPECT_EQ(ready.refs.size(), 3U);
  EXPECT_FALSE(start_.IsOpen(2));
}

TEST_F(LifeStartTest, WhatIsLateOfTheCoordinatorsValuesIsAskedForAgain) {
  setup_.has_values = true;
  EXPECT_FALSE(Open());
  EXPECT_THAT(tables_.Take<proto::PullRequest>(), SizeIs(1));
  proto::PullReply reply;
  reply.chunks = {{kFirst, 0, 2, 0}, {kThird, 0, 3, 0}};
  auto buffer = std::make_shared<Buffer>(5 * sizeof(float));
  std::ranges::fill(buffer->floats(), 4.0F);
  reply.payload = proto::Payload::Own(std::move(buffer), 5 * sizeof(float));
  EXPECT_FALSE(start_.OnValues(tables_.From(kCoordinator), reply));
  start_.OnTick(tables_.now, &tables_.sent);
  EXPECT_TRUE(tables_.sent.all.empty()) << "it is not late";
  tables_.now += tables_.life.settings.timing.lease;
  start_.OnTick(tables_.now, &tables_.sent);
  const auto pulls = tables_.Take<proto::PullRequest>();
  ASSERT_THAT(pulls, SizeIs(1));
  ASSERT_THAT(pulls[0].held, SizeIs(2));
  EXPECT_EQ(pulls[0].held[1].key, kThird);
  reply.chunks = {{kSecond, 0, 2, 0}};
  auto rest = std::make_shared<Buffer>(2 * sizeof(float));
  std::ranges::fill(rest->floats(), 5.0F);
  reply.payload = proto::Payload::Own(std::move(rest), 2 * sizeof(float));
  EXPECT_TRUE(start_.OnValues(tables_.From(kCoordinator), reply));
  EXPECT_EQ(tables_.FirstOf(kThird), 4);
  EXPECT_EQ(tables_.FirstOf(kSecond), 5);
}

TEST_F(LifeStartTest, AChunkThatIsStillInMemoryIsNotRead) {
  setup_.restore = {9, 1};
  HeldPart held;
  held.chunks[kSecond] = {tables_.store.Take(1), std::nullopt};
  start_.Open(std::move(held));
  EXPECT_FALSE(start_.Ask(tables_.From(kCoordinator), setup_));
  EXPECT_FALSE(start_.Ask(tables_.From(kCoordinator), setup_)) << "once is enough";
  ASSERT_THAT(disk_.requests, SizeIs(1));
  EXPECT_THAT(std::get<RestoreRequest>(disk_.requests[0]).keys, ElementsAre(kFirst, kThird));
}

TEST_F(LifeStartTest, DamageIsToldAndWhatMayPassIsRefused) {
  setup_.restore = {9, 1};
  Open();
  EXPECT_FALSE(Restored(Status::Corruption("torn")));
  EXPECT_EQ(tables_.Take<proto::RestoreFailed>().at(0).code, StatusCode::kCorruption);
  EXPECT_FALSE(start_.IsOpen(2));
  Open();
  EXPECT_FALSE(Restored(Status::Io("no answer")));
  EXPECT_EQ(tables_.Take<proto::Refusal>().at(0).code, StatusCode::kUnavailable);
  tables_.now += std::chrono::minutes(5);
  Open();
  EXPECT_FALSE(Restored(Status::Io("no answer")));
  EXPECT_EQ(tables_.Take<proto::Refusal>().at(0).code, StatusCode::kIo) << "it did not pass";
}

}  // namespace
}  // namespace ps::server
