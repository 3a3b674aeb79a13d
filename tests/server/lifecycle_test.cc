#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ShardLifecycleTest, RegistersWithItsAddressOnEveryConnection) {
  ShardRig rig;
  for (const uint64_t peer : {1U, 2U}) {
    rig.core.OnCoordinatorConnected(proto::PeerId(peer), 1, rig.now, &rig.sent);
    const auto registrations = rig.Take<proto::RegisterShard>();
    ASSERT_EQ(registrations.size(), 1U);
    EXPECT_EQ(registrations[0].to, proto::PeerId(peer));
    EXPECT_EQ(registrations[0].message.shard, kShard);
    EXPECT_EQ(registrations[0].message.host, "host");
    EXPECT_EQ(registrations[0].message.port, 4711U);
    EXPECT_EQ(registrations[0].message.pid, 99);
    EXPECT_EQ(registrations[0].message.launch, LaunchId(12));
  }
}

TEST(ShardLifecycleTest, RegistersAgainUntilItIsSetUp) {
  ShardRig rig;
  rig.core.OnCoordinatorConnected(kCoordinator, 1, rig.now, &rig.sent);
  rig.Take<proto::RegisterShard>();
  rig.Tick(seconds(2));
  EXPECT_EQ(rig.Take<proto::RegisterShard>().size(), 1U);
  rig.Deliver(kCoordinator, rig.setup);
  rig.Tick(seconds(2));
  EXPECT_TRUE(rig.Take<proto::RegisterShard>().empty());
}

TEST(ShardLifecycleTest, ANoticeIsToldUntilTheCoordinatorKnows) {
  ShardRig rig;
  rig.core.OnNotice(rig.now + seconds(30), "SIGTERM", rig.now, &rig.sent);
  EXPECT_TRUE(rig.Take<proto::ServerNotice>().empty()) << "it is nobody's shard yet";
  rig.SetUp();
  rig.Tick(seconds(1));
  auto notices = rig.Take<proto::ServerNotice>();
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_EQ(notices[0].to, kCoordinator);
  EXPECT_EQ(notices[0].message.shard, kShard);
  EXPECT_EQ(notices[0].message.what, "SIGTERM");
  EXPECT_GE(notices[0].message.grace_ms, 20'000U);
  EXPECT_LT(notices[0].message.grace_ms, 30'000U) << "what is left";
  rig.Tick(seconds(1));
  EXPECT_EQ(rig.Take<proto::ServerNotice>().size(), 1U);
  rig.Deliver(kCoordinator, proto::NoticeReply{28'000});
  rig.Tick(seconds(1));
  EXPECT_TRUE(rig.Take<proto::ServerNotice>().empty());
  rig.core.OnNotice(rig.now + seconds(60), "Azure", rig.now, &rig.sent);
  EXPECT_TRUE(rig.Take<proto::ServerNotice>().empty()) << "the first leaves less time";
  rig.core.OnNotice(rig.now + seconds(2), "Azure", rig.now, &rig.sent);
  ASSERT_EQ(rig.Take<proto::ServerNotice>().size(), 1U) << "at once";
  EXPECT_FALSE(rig.core.is_shut_down()) << "it leaves when it is told to";
}

TEST(ShardLifecycleTest, ACoordinatorOfAnEarlierTermIsSentAway) {
  ShardRig rig;
  rig.core.OnCoordinatorConnected(proto::PeerId(1), 3, rig.now, &rig.sent);
  EXPECT_EQ(rig.core.term(), 3U);
  rig.Take<proto::RegisterShard>();
  rig.core.OnCoordinatorConnected(proto::PeerId(2), 2, rig.now, &rig.sent);
  EXPECT_TRUE(rig.Take<proto::RegisterShard>().empty());
  EXPECT_TRUE(rig.sent.closed.contains(proto::PeerId(2)));
  rig.core.OnCoordinatorConnected(proto::PeerId(3), 4, rig.now, &rig.sent);
  EXPECT_EQ(rig.Take<proto::RegisterShard>().size(), 1U);
  EXPECT_EQ(rig.core.term(), 4U);
}

TEST(ShardLifecycleTest, ASetUpIsAnsweredEveryTimeAndDoneOnce) {
  ShardRig rig;
  rig.SetUp();
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  rig.Deliver(kCoordinator, rig.setup);
  EXPECT_EQ(rig.Take<proto::ShardReady>().size(), 1U);
  EXPECT_THAT(rig.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
}

TEST(ShardLifecycleTest, ARepeatedSetUpBringsItsMembership) {
  ShardRig rig;
  rig.SetUp();
  rig.setup.membership = rig.MembersUpTo(1);
  rig.Deliver(kCoordinator, rig.setup);
  rig.Push(rig.WholeStep(2, 1, 0.5F));
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kStale);
}

TEST(ShardLifecycleTest, ASetUpThatMakesNoSenseIsRefused) {
  ShardRig rig;
  rig.core.OnCoordinatorConnected(kCoordinator, 1, rig.now, &rig.sent);
  rig.setup.placement.chunks[0].element_count = 77;
  rig.Deliver(kCoordinator, rig.setup);
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kInvalidArgument);
  EXPECT_FALSE(rig.core.is_set_up());
}

TEST(ShardLifecycleTest, ASetUpWithAConfigThatCannotBeReadIsRefused) {
  SentMessages sent;
  ShardCore core(
      {kShard, "host", 4711, 99, 0, {}}, &ShardSettings::Read, nullptr, nullptr, &NullLogger());
  core.OnCoordinatorConnected(kCoordinator, 1, TimePoint(seconds(100)), &sent);
  proto::ShardSetup setup = ShardRig().setup;
  setup.config_json = R"({"name": "job", "train": {"minibatch": 0}})";
  core.OnMessage(kCoordinator, 7, setup, TimePoint(seconds(100)), &sent);
  const auto* refusal = std::get_if<proto::Refusal>(&sent.all.back().message);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->code, StatusCode::kInvalidArgument);
  EXPECT_THAT(refusal->message, HasSubstr("train.minibatch"));
  EXPECT_FALSE(core.is_set_up());
}

TEST(ShardLifecycleTest, SendsHeartbeatsInTheJobsRhythm) {
  ShardRig rig;
  rig.settings.timing = proto::Timing::FromMaxDetect(milliseconds(600));
  rig.SetUp();
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  rig.Tick(milliseconds(99));
  EXPECT_TRUE(rig.Take<proto::ShardHeartbeat>().empty());
  rig.Tick(milliseconds(2));
  const auto beats = rig.Take<proto::ShardHeartbeat>();
  ASSERT_EQ(beats.size(), 1U);
  EXPECT_EQ(beats[0].to, kCoordinator);
  EXPECT_EQ(beats[0].message.shard, kShard);
  const proto::ShardStats& stats = beats[0].message.stats;
  EXPECT_EQ(stats.chunk_count, 3U);
  EXPECT_EQ(stats.parameter_bytes, 28U);
  EXPECT_EQ(stats.steps_applied, 1U);
  EXPECT_EQ(stats.chunks_applied, 3U);
  EXPECT_EQ(stats.bytes_received, 28U);
  ASSERT_EQ(stats.workers.size(), 3U);
  EXPECT_EQ(stats.workers[0].last_step, 1U);
  EXPECT_EQ(stats.workers[0].clock, 1U);
}

TEST(ShardLifecycleTest, EndsWhenTheCoordinatorSaysSo) {
  ShardRig rig;
  rig.SetUp();
  rig.Deliver(kCoordinator, proto::Shutdown{"done"});
  EXPECT_TRUE(rig.core.is_shut_down());
  EXPECT_TRUE(rig.core.outcome().ok());
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  EXPECT_TRUE(rig.sent.all.empty());
}

TEST(ShardLifecycleTest, EndsWhenTheCoordinatorIsGoneForTooLong) {
  ShardRig rig;
  rig.SetUp();
  rig.core.OnPeerClosed(kCoordinator, rig.now, &rig.sent);
  const Duration grace = rig.core.timing().orphan;
  rig.Wait(grace - milliseconds(100));
  EXPECT_FALSE(rig.core.is_shut_down());
  rig.core.OnCoordinatorConnected(proto::PeerId(2), 1, rig.now, &rig.sent);
  rig.Wait(grace - milliseconds(100));
  rig.core.OnPeerClosed(proto::PeerId(2), rig.now, &rig.sent);
  rig.Wait(grace + milliseconds(100));
  EXPECT_TRUE(rig.core.is_shut_down());
  EXPECT_EQ(rig.core.outcome().code(), StatusCode::kUnavailable);
}

TEST(ShardLifecycleTest, EndsWhenAConnectedCoordinatorStaysSilent) {
  ShardRig rig;
  rig.SetUp();
  const Duration grace = rig.core.timing().orphan;
  rig.Wait(grace - seconds(1));
  rig.Deliver(kCoordinator, proto::HeartbeatReply{});
  rig.Wait(grace - seconds(1));
  EXPECT_FALSE(rig.core.is_shut_down());
  rig.Wait(seconds(2));
  EXPECT_TRUE(rig.core.is_shut_down());
  EXPECT_THAT(rig.core.outcome().ToString(), HasSubstr("silent"));
}

TEST(ShardLifecycleTest, EndsWhenTheCoordinatorRefusesIt) {
  ShardRig rig;
  rig.core.OnCoordinatorConnected(kCoordinator, 1, rig.now, &rig.sent);
  rig.Deliver(kCoordinator, proto::Refusal{StatusCode::kUnavailable, "later", 10, 0});
  EXPECT_FALSE(rig.core.is_shut_down());
  rig.Deliver(kCoordinator, proto::Refusal{StatusCode::kInvalidArgument, "no shard 3", 0, 0});
  EXPECT_TRUE(rig.core.is_shut_down());
  EXPECT_THAT(rig.core.outcome().ToString(), HasSubstr("no shard 3"));
}

TEST(ShardLifecycleTest, WhatACoordinatorHasNoBusinessToSendIsRefused) {
  ShardRig rig;
  rig.SetUp();
  rig.Deliver(kCoordinator, rig.WholeStep(1, 1, 1));
  EXPECT_THAT(rig.OnlyRefusal().message, HasSubstr("no PushRequest from a coordinator"));
  EXPECT_THAT(rig.Versions(), ElementsAre(0, 0, 0));
}

TEST(ShardLifecycleTest, EndsWhenItNeverMeetsItsCoordinator) {
  ShardRig rig;
  rig.Tick(seconds(100));
  rig.Wait(rig.core.timing().orphan - milliseconds(100));
  EXPECT_FALSE(rig.core.is_shut_down());
  rig.Wait(milliseconds(200));
  EXPECT_TRUE(rig.core.is_shut_down());
  EXPECT_EQ(rig.core.outcome().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(rig.sent.all.empty());
}

TEST(ShardLifecycleTest, ItsOwnPauseIsNotTheCoordinatorsSilence) {
  ShardRig unmet;
  unmet.Tick(seconds(100));
  unmet.Tick(seconds(30));
  EXPECT_FALSE(unmet.core.is_shut_down());

  ShardRig rig;
  rig.SetUp();
  rig.Wait(seconds(1));
  rig.Tick(seconds(30));
  EXPECT_FALSE(rig.core.is_shut_down());
  rig.Wait(seconds(31));
  EXPECT_TRUE(rig.core.is_shut_down());
}

TEST(ShardLifecycleTest, AConnectionHasRoomForTwoAnswers) {
  const auto room = [](uint64_t queue_bytes, uint64_t frame_bytes) {
    ShardRig rig;
    rig.settings.queue_bytes = queue_bytes;
    rig.settings.frame_bytes = frame_bytes;
    rig.SetUp();
    return rig.core.outgoing_bytes_max();
  };
  EXPECT_EQ(room(10, 1), 56U) << "28 bytes of parameters";
  EXPECT_EQ(room(10, 40), 80U);
  EXPECT_EQ(room(1000, 20), 1000U);
}

TEST(ShardLifecycleTest, ChunksOfOthersHaveNoValuesHere) {
  ShardRig rig;
  rig.SetUp();
  EXPECT_TRUE(rig.core.ValuesOf(kForeign).empty());
  EXPECT_EQ(rig.core.VersionOf(kForeign), 0U);
}

}  // namespace
}  // namespace ps::server
