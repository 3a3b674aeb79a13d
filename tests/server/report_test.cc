#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint32_t kMany = 5000;

/// The heartbeat, as the coordinator reads it off the wire.
Result<proto::ShardHeartbeat> NextHeartbeat(ShardRig* rig) {
  rig->Tick(std::chrono::seconds(1));
  const auto beats = rig->Take<proto::ShardHeartbeat>();
  PS_CHECK(beats.size() == 1) << beats.size() << " heartbeats";
  const proto::EncodedMessage frame = proto::EncodeMessage(beats[0].message, 1);
  PS_ASSIGN(
      const proto::FrameHeader header,
      proto::DecodeFrameHeader(
          std::span(frame.head).first<proto::kFrameHeaderBytes>(), proto::FrameLimits()));
  PS_ASSIGN(
      const proto::Message message,
      proto::DecodeMessage(
          header, std::span(frame.head).subspan(proto::kFrameHeaderBytes), frame.payload));
  return std::get<proto::ShardHeartbeat>(message);
}

TEST(ShardReportTest, AWaitForThousandsNamesAFew) {
  ShardRig rig(proto::Mode::kSsp);
  rig.mode.staleness_max = 1;
  rig.setup.membership = rig.MembersUpTo(kMany);
  rig.SetUp();
  for (const Step step : {1U, 2U}) {
    rig.Push(rig.WholeStep(1, step, 0));
  }
  rig.Pull(rig.PullAll(1));
  const auto heartbeat = NextHeartbeat(&rig);
  ASSERT_TRUE(heartbeat.ok()) << heartbeat.status();
  ASSERT_THAT(heartbeat->waits, SizeIs(1));
  EXPECT_EQ(
      heartbeat->waits[0].for_whom,
      "w1 (clock 0), w2 (clock 0), w3 (clock 0), w4 (clock 0), w5 (clock 0), w6 (clock 0), "
      "w7 (clock 0), w8 (clock 0) and 4991 more");
}

TEST(ShardReportTest, ThousandsThatWaitFitIntoAHeartbeat) {
  ShardRig rig(proto::Mode::kSsp);
  rig.mode.staleness_max = 1;
  rig.setup.membership = rig.MembersUpTo(kMany);
  rig.SetUp();
  for (uint32_t incarnation = 1; incarnation < kMany; ++incarnation) {
    rig.Push(rig.WholeStep(incarnation, 1, 0));
    rig.Push(rig.WholeStep(incarnation, 2, 0));
    rig.Pull(rig.PullAll(incarnation));
  }
  const auto heartbeat = NextHeartbeat(&rig);
  ASSERT_TRUE(heartbeat.ok()) << heartbeat.status();
  EXPECT_THAT(heartbeat->waits, SizeIs(64));
  EXPECT_EQ(heartbeat->waits[0].for_whom, "w4999 (clock 0)");
  EXPECT_THAT(heartbeat->stats.workers, SizeIs(kMany));
}

TEST(ShardReportTest, TheWorkersOfAHeartbeatAreBoundedToo) {
  ShardRig rig(proto::Mode::kBsp);
  rig.setup.membership = rig.MembersUpTo(150000);
  rig.SetUp();
  rig.sent.all.clear();
  const auto heartbeat = NextHeartbeat(&rig);
  ASSERT_TRUE(heartbeat.ok()) << heartbeat.status();
  EXPECT_THAT(heartbeat->stats.workers, SizeIs(16384));
}

}  // namespace
}  // namespace ps::server
