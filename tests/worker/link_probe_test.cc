#include "worker/link_probe.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "tests/client/recording_outbox.h"

namespace ps::worker {
namespace {

class HandClock final : public TimeSource {
 public:
  TimePoint Now() const override { return now; }

  int64_t UnixMicros() const override { return 0; }

  TimePoint now{};
};

constexpr uint64_t kOwn = uint64_t{1} << 63;

/// A worker whose core is the test, behind a link of 100 MB/s each way and a round trip of 2 ms.
class LinkProbeTest : public testing::Test {
 protected:
  static constexpr double kRate = 100e6;
  static constexpr double kRoundTripS = 0.002;

  void SetMillis(double millis) { clock_.now = TimePoint() + FromSeconds(millis / 1000); }

  double Millis() const { return 1000 * Seconds(clock_.now - TimePoint()); }

  void SendFrame(Step step, uint32_t chunk, uint32_t elements, proto::PeerId to, uint64_t request) {
    proto::PushRequest push;
    push.worker = WorkerId(3);
    push.incarnation = Incarnation(9);
    push.step = step;
    push.samples = 32;
    push.chunk_count = 2;
    push.chunks = {{MakeChunkKey(0, chunk), elements, 0}};
    push.payload.parts = {std::span(memory_).first(elements * sizeof(float))};
    probe_.Send(to, request, push);
  }

  void Acknowledge(Step step, proto::PeerId from, uint64_t request) {
    proto::PushReply reply;
    reply.step = step;
    EXPECT_FALSE(probe_.OnMessage(from, request, reply));
  }

  /// Half a chunk at a time, as large ones come.
  void Answer(uint32_t chunk, uint32_t begin, uint32_t elements, proto::PeerId from, uint64_t id) {
    proto::PullReply reply;
    reply.chunk_total = 2;
    reply.chunks = {{MakeChunkKey(0, chunk), 1, elements, begin}};
    reply.payload.parts = {std::span(memory_).first(elements * sizeof(float))};
    EXPECT_FALSE(probe_.OnMessage(from, id, reply));
  }

  /// A small chunk leaves at 10 ms and one of 1 MB at 40 ms, when the link is long at rest again.
  void Exchange(Step step, double begin_ms, uint64_t request) {
    SetMillis(begin_ms + 10);
    SendFrame(step, 1, 1000, kShard, request);
    SetMillis(begin_ms + 40);
    SendFrame(step, 0, 250000, kShard, request);
    const double pushed_ms = begin_ms + 40 + 1000 * (1e6 / kRate + kRoundTripS);
    SetMillis(pushed_ms);
    Acknowledge(step, kShard, request);
    SetMillis(pushed_ms + 1000 * 0.5e6 / kRate);
    Answer(0, 0, 125000, kShard, request);
    SetMillis(pushed_ms + 1000 * 1e6 / kRate);
    Answer(0, 125000, 125000, kShard, request);
    SetMillis(pushed_ms + 1000 * 1.004e6 / kRate);
    Answer(1, 0, 1000, kShard, request);
  }

  /// What the probe has asked for last is answered.
  void AnswerQuestion(double round_trip_s = kRoundTripS) {
    const auto& sent = out_.sent.back();
    ASSERT_NE(sent.request_id & kOwn, 0U);
    const auto& question = std::get<proto::PushRequest>(sent.message);
    EXPECT_TRUE(question.chunks.empty());
    EXPECT_FALSE(question.wants_pull);
    EXPECT_EQ(question.incarnation, Incarnation(9));
    EXPECT_EQ(question.chunk_count, 2U);
    SetMillis(Millis() + 1000 * round_trip_s);
    proto::Refusal reply;
    reply.step = question.step;
    EXPECT_TRUE(probe_.OnMessage(sent.to, sent.request_id, reply)) << "the core hears nothing";
  }

  static constexpr proto::PeerId kShard{5};
  static constexpr proto::PeerId kOther{6};
  const std::vector<std::byte> memory_ = std::vector<std::byte>(1000000);
  HandClock clock_;
  client::RecordingOutbox out_;
  LinkProbe probe_{&out_, &clock_, 1};
};

TEST_F(LinkProbeTest, RatesAreThoseOfABusyLinkAndTheRoundTripIsItsOwn) {
  for (Step step = 1; step <= 5; ++step) {
    Exchange(step, 200.0 * static_cast<double>(step), 100 + step);
    AnswerQuestion(step == 3 ? kRoundTripS : 20 * kRoundTripS);
  }
  const LinkProbe::Figures figures = probe_.figures();
  EXPECT_EQ(figures.exchanges, 4U) << "the first does not count";
  EXPECT_NEAR(figures.round_trip_s, kRoundTripS, 1e-9);
  EXPECT_NEAR(figures.push_bytes_per_s, kRate, 1e-3 * kRate)
      << "the frame of 4 KB that left long before says nothing";
  EXPECT_NEAR(figures.pull_bytes_per_s, kRate, 1e-3 * kRate);
}

TEST_F(LinkProbeTest, WhatIsRepeatedOrAskedForBesidesIsNotTimed) {
  Exchange(1, 0, 101);
  AnswerQuestion();
  SetMillis(200);
  SendFrame(2, 1, 1000, kShard, 102);
  SendFrame(2, 1, 1000, kShard, 103);
  Exchange(2, 200, 103);
  Exchange(3, 600, 104);
  AnswerQuestion();
  EXPECT_EQ(probe_.figures().exchanges, 1U);
  SetMillis(900);
  SendFrame(4, 2, 1000, kShard, 105);
  probe_.Send(kShard, 106, proto::PullRequest());
  Exchange(4, 900, 105);
  EXPECT_EQ(probe_.figures().exchanges, 1U);
}

TEST_F(LinkProbeTest, AnExchangeIsOverWhenAllShardsHaveAnswered) {
  Exchange(1, 0, 101);
  AnswerQuestion();
  SetMillis(200);
  SendFrame(2, 1, 1000, kOther, 7);
  const size_t sent = out_.sent.size();
  Exchange(2, 200, 102);
  EXPECT_EQ(out_.sent.size(), sent + 2) << "its two frames, and no question";
  EXPECT_EQ(probe_.figures().exchanges, 0U);
  Acknowledge(2, kOther, 7);
  Answer(0, 0, 10, kOther, 7);
  Answer(1, 0, 1000, kOther, 7);
  EXPECT_EQ(out_.sent.size(), sent + 3);
  AnswerQuestion();
  EXPECT_EQ(probe_.figures().exchanges, 1U);
}

TEST_F(LinkProbeTest, WithoutAnExchangeThereAreNoFigures) {
  EXPECT_EQ(probe_.figures().exchanges, 0U);
  EXPECT_EQ(probe_.figures().push_bytes_per_s, 0);
  // An answer to nobody's question is for nobody.
  EXPECT_TRUE(probe_.OnMessage(kShard, kOwn | 44, proto::PushReply()));
}

}  // namespace
}  // namespace ps::worker
