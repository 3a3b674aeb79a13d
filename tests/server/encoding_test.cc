// Pushes and pulls in fewer bits: what comes is f32 from the shard's intake on, what goes is made
// of f32 as it leaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using proto::PushOutcome;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr codec::Encoding kInt8{codec::EncodingKind::kInt8};
constexpr codec::Encoding kInt4{codec::EncodingKind::kInt4};
constexpr codec::Encoding kTopk{codec::EncodingKind::kTopk, 500'000};
constexpr codec::Encoding kBf16{codec::EncodingKind::kBf16};

/// The same push as a worker would encode it.
proto::PushRequest Encoded(proto::PushRequest push, const codec::Encoding& encoding) {
  const auto* values = reinterpret_cast<const float*>(push.payload.bytes().data());
  std::vector<std::byte> bytes;
  for (const proto::ChunkRef& chunk : push.chunks) {
    std::vector<std::byte> part(encoding.SizeOf(chunk.element_count));
    codec::Encode(encoding, {values, chunk.element_count}, {}, part);
    values += chunk.element_count;
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  auto buffer = std::make_shared<Buffer>(bytes.size());
  std::ranges::copy(bytes, buffer->bytes().begin());
  push.encoding = encoding;
  push.payload = proto::Payload::Own(buffer, bytes.size());
  return push;
}

/// A rig; kThird gets observations when `has_average`.
std::unique_ptr<ShardRig> RigOf(proto::Mode mode = proto::Mode::kAsync, bool has_average = false) {
  auto rig = std::make_unique<ShardRig>(mode);
  if (has_average) {
    rig->setup.tensors[1].rule = UpdateRule::kAverage;
    rig->setup.tensors[1].average_rate = 0.5F;
  }
  rig->SetUp();
  return rig;
}

TEST(EncodedPushTest, GradientsAreAppliedAsFloats) {
  for (const codec::Encoding& encoding : {kInt8, kInt4, kBf16}) {
    const auto rig = RigOf();
    rig->Push(Encoded(rig->WholeStep(1, 1, 0.25F), encoding));
    EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kApplied) << encoding.ToText();
    EXPECT_THAT(rig->Values(), Each(testing::FloatNear(0.75F, 1e-6F))) << encoding.ToText();
  }
  const auto rig = RigOf();
  rig->Push(Encoded(rig->WholeStep(1, 1, 0.25F), kTopk));
  const std::span<const float> values = rig->core.ValuesOf(kThird);
  EXPECT_THAT(std::vector<float>(values.begin(), values.end()), ElementsAre(0.75F, 0.75F, 1));
}

TEST(EncodedPushTest, BytesAreCountedAsTheyCame) {
  const auto rig = RigOf();
  rig->Push(Encoded(rig->WholeStep(1, 1, 0.25F), kInt8));
  EXPECT_EQ(rig->core.Stats().bytes_received, 6U + 6 + 7);
}

TEST(EncodedPushTest, ObservationsComeAsFloats) {
  const auto rig = RigOf(proto::Mode::kAsync, true);
  rig->Push(Encoded(rig->Frame(1, 1, {kFirst, kSecond}, 0.25F), kInt8));
  rig->Push(rig->Frame(1, 1, {kThird}, 3));
  EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kApplied);
  EXPECT_EQ(rig->core.ValuesOf(kThird)[0], 2);
  rig->Push(Encoded(rig->Frame(1, 2, {kThird}, 3), kInt8));
  EXPECT_THAT(rig->OnlyRefusal().message, HasSubstr("comes as int8"));
}

TEST(EncodedPushTest, WhatIsNotFiniteIsRejectedAsInF32) {
  for (const codec::Encoding& encoding : {kInt8, kInt4, kTopk, kBf16}) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const auto rig = RigOf();
      rig->Push(Encoded(rig->Frame(1, 1, {kFirst}, bad), encoding));
      rig->Push(Encoded(rig->Frame(1, 1, {kSecond}, 0.5F), encoding));
      rig->Push(Encoded(rig->Frame(1, 1, {kThird}, 0.5F), encoding));
      const auto reply = rig->OnlyPushReply();
      EXPECT_EQ(reply.outcome, PushOutcome::kRejected) << encoding.ToText();
      EXPECT_EQ(reply.rejected_chunks, 1U);
      EXPECT_THAT(rig->core.ValuesOf(kFirst)[0], 1);
      EXPECT_EQ(rig->core.Stats().chunks_rejected, 1U);
    }
  }
}

TEST(EncodedPushTest, HostileBytesAreRefusedAndNothingOfTheirFrameIsTaken) {
  const auto rig = RigOf();
  proto::PushRequest push = Encoded(rig->WholeStep(1, 1, 0.25F), kInt8);
  auto* const bytes = const_cast<std::byte*>(push.payload.bytes().data());
  constexpr float kNegative = -1;
  std::memcpy(bytes + 12, &kNegative, sizeof(kNegative));  // the scale of the last chunk
  rig->Push(push);
  EXPECT_THAT(rig->OnlyRefusal().message, HasSubstr("a block of int8 has no scale"));
  EXPECT_THAT(rig->Values(), Each(1.0F));
  // A frame whose parts claim more than they bring.
  push = Encoded(rig->WholeStep(1, 1, 0.25F), kInt8);
  push.chunks.back().element_count = 1'000'000'000;
  rig->Push(push);
  EXPECT_THAT(rig->OnlyRefusal().message, HasSubstr("ends within chunk"));
  // The right step is taken all the same.
  rig->Push(Encoded(rig->WholeStep(1, 1, 0.25F), kInt8));
  EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kApplied);
}

TEST(EncodedPushTest, AStepThatIsSentAgainIsAppliedOnce) {
  const auto rig = RigOf();
  const proto::PushRequest push = Encoded(rig->WholeStep(1, 1, 0.25F), kInt8);
  rig->Push(push);
  rig->Push(push);
  EXPECT_EQ(rig->Take<proto::PushReply>().size(), 2U);
  EXPECT_THAT(rig->Values(), Each(testing::FloatNear(0.75F, 1e-6F)));
}

TEST(EncodedPushTest, ARoundIsTheMeanOfWhatWasDecoded) {
  const auto rig = RigOf(proto::Mode::kBsp);
  for (uint64_t incarnation = 1; incarnation <= 2; ++incarnation) {
    proto::PushRequest push =
        Encoded(rig->WholeStep(incarnation, 1, 0.25F * static_cast<float>(incarnation)), kInt8);
    push.round = 1;
    rig->Push(push);
    EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kStaged);
  }
  EXPECT_EQ(rig->core.Stats().staged_bytes, 2 * 7 * sizeof(float)) << "as they are kept";
  rig->Deliver(
      kCoordinator,
      proto::CommitRound{
          1, {{WorkerId(0), Incarnation(1), 1, 1}, {WorkerId(1), Incarnation(2), 1, 1}}});
  while (rig->core.HasWork()) {
    rig->core.Continue(&rig->sent);
  }
  EXPECT_THAT(rig->Values(), Each(testing::FloatNear(0.625F, 1e-6F)));
}

constexpr codec::Encoding kNothing{codec::EncodingKind::kNothing};

/// kThird is frozen; kFirst and kSecond move half as far.
std::unique_ptr<ShardRig> FrozenRig(proto::Mode mode) {
  auto rig = std::make_unique<ShardRig>(mode);
  proto::ParameterGroup frozen;
  frozen.match = {rig->setup.tensors[1].name};
  frozen.frozen = true;
  proto::ParameterGroup slow;
  slow.match = {rig->setup.tensors[0].name};
  slow.lr_factor = 0.5F;
  rig->settings.parameters = {frozen, slow};
  rig->SetUp();
  return rig;
}

TEST(FrozenPushTest, AFrozenChunkComesAsNothingAndStaysAsItIs) {
  const auto rig = FrozenRig(proto::Mode::kAsync);
  for (Step step = 1; step <= 2; ++step) {
    rig->Push(rig->Frame(1, step, {kFirst, kSecond}, 0.5F));
    rig->Push(Encoded(rig->Frame(1, step, {kThird}, 7), kNothing));
    EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kApplied);
  }
  EXPECT_EQ(rig->core.ValuesOf(kFirst)[0], 0.5F);
  EXPECT_EQ(rig->core.ValuesOf(kThird)[0], 1);
  EXPECT_EQ(rig->core.Stats().bytes_received, 2 * 4 * sizeof(float));
}

TEST(FrozenPushTest, ItIsInNoPullAfterTheFirst) {
  const auto rig = FrozenRig(proto::Mode::kAsync);
  rig->Push(rig->Frame(1, 1, {kFirst, kSecond}, 0.5F));
  rig->Push(Encoded(rig->Frame(1, 1, {kThird}, 7), kNothing));
  EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kApplied);
  EXPECT_THAT(rig->Versions(), ElementsAre(1, 1, 0));
}

TEST(FrozenPushTest, ARoundLeavesItAsItIs) {
  const auto rig = FrozenRig(proto::Mode::kBsp);
  for (uint64_t incarnation = 1; incarnation <= 2; ++incarnation) {
    for (proto::PushRequest push :
         {rig->Frame(incarnation, 1, {kFirst, kSecond}, 0.5F),
          Encoded(rig->Frame(incarnation, 1, {kThird}, 7), kNothing)}) {
      push.round = 1;
      rig->Push(push);
    }
    EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kStaged);
  }
  rig->Deliver(
      kCoordinator,
      proto::CommitRound{
          1, {{WorkerId(0), Incarnation(1), 1, 1}, {WorkerId(1), Incarnation(2), 1, 1}}});
  while (rig->core.HasWork()) {
    rig->core.Continue(&rig->sent);
  }
  EXPECT_EQ(rig->core.ValuesOf(kFirst)[0], 0.75F);
  EXPECT_EQ(rig->core.ValuesOf(kThird)[0], 1);
}

TEST(FrozenPushTest, ValuesForItAndNothingForOthersAreRefused) {
  const auto rig = FrozenRig(proto::Mode::kAsync);
  rig->Push(rig->Frame(1, 1, {kThird}, 7));
  EXPECT_THAT(rig->OnlyRefusal().message, HasSubstr("comes as f32, and it is frozen"));
  rig->Push(Encoded(rig->Frame(1, 1, {kFirst}, 7), kNothing));
  EXPECT_THAT(rig->OnlyRefusal().message, HasSubstr("comes as nothing, and it is trained"));
  EXPECT_THAT(rig->Values(), Each(1.0F));
}

/// kThird is an observation, as of a buffer of a program's model.
class ObservationTest : public ::testing::Test {
 protected:
  std::unique_ptr<ShardRig> Rig(proto::Mode mode, uint32_t frame_bytes = 0) {
    auto rig = std::make_unique<ShardRig>(mode);
    rig->setup.tensors[1].rule = UpdateRule::kAverage;
    rig->setup.tensors[1].average_rate = 1;
    rig->settings.frame_bytes = frame_bytes == 0 ? rig->settings.frame_bytes : frame_bytes;
    rig->SetUp();
    return rig;
  }

  static std::vector<float> ThirdOf(const ShardRig& rig) {
    const std::span<const float> values = rig.core.ValuesOf(kThird);
    return {values.begin(), values.end()};
  }

  /// A step of round `round`, in which kThird is observed to be `observed`; nothing: as it was.
  /// `step` 0: as the round.
  static void PushRound(
      ShardRig* rig,
      uint64_t incarnation,
      uint64_t round,
      std::optional<float> observed,
      Step step = 0) {
    step = step == 0 ? round : step;
    proto::PushRequest third = rig->Frame(incarnation, step, {kThird}, observed.value_or(7));
    for (proto::PushRequest push :
         {rig->Frame(incarnation, step, {kFirst, kSecond}, 0.5F),
          observed ? third : Encoded(third, kNothing)}) {
      push.round = round;
      rig->Push(push);
    }
    EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kStaged);
  }

  /// The round of the first workers, with their steps.
  static void Commit(ShardRig* rig, uint64_t round, const std::vector<Step>& steps) {
    proto::CommitRound commit;
    commit.round = round;
    for (uint32_t i = 0; i < steps.size(); ++i) {
      commit.contributions.push_back({WorkerId(i), Incarnation(i + 1), steps[i], 1});
    }
    rig->Deliver(kCoordinator, commit);
    while (rig->core.HasWork()) {
      rig->core.Continue(&rig->sent);
    }
  }
};

TEST_F(ObservationTest, WhatAWorkerHasNotMovedLeavesWhatOthersHaveMoved) {
  const auto rig = Rig(proto::Mode::kAsync);
  rig->Push(rig->Frame(1, 1, {kFirst, kSecond}, 0.5F));
  rig->Push(rig->Frame(1, 1, {kThird}, 7));
  EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kApplied);
  rig->Push(rig->Frame(2, 1, {kFirst, kSecond}, 0.5F));
  rig->Push(Encoded(rig->Frame(2, 1, {kThird}, 1), kNothing));
  EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kApplied);
  EXPECT_THAT(ThirdOf(*rig), Each(7.0F));
  EXPECT_THAT(rig->Versions(), ElementsAre(2, 2, 1)) << "no pull brings it again";
  EXPECT_EQ(rig->core.Stats().bytes_received, (4 + 3 + 4) * sizeof(float));
}

TEST_F(ObservationTest, AValueThatIsObservedAgainIsNoNewVersion) {
  const auto rig = Rig(proto::Mode::kAsync);
  rig->Push(rig->Frame(1, 1, {kFirst, kSecond, kThird}, 1));
  EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kApplied);
  EXPECT_THAT(rig->Versions(), ElementsAre(1, 1, 0));
}

TEST_F(ObservationTest, PartsThatAreNothingStayAsTheyAre) {
  const auto rig = Rig(proto::Mode::kAsync, sizeof(float));
  const auto push = [&](Step step, uint32_t part, bool is_nothing) {
    proto::PushRequest request = rig->Part(1, step, kThird, part, 1, 7);
    request.chunk_count = 1;
    rig->Push(is_nothing ? Encoded(request, kNothing) : request);
  };
  for (uint32_t part = 0; part < 3; ++part) {
    push(1, part, true);
  }
  EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kApplied);
  EXPECT_EQ(rig->core.VersionOf(kThird), 0U);
  for (uint32_t part = 0; part < 3; ++part) {
    push(2, part, part != 1);
  }
  EXPECT_EQ(rig->OnlyPushReply().outcome, PushOutcome::kApplied);
  EXPECT_THAT(ThirdOf(*rig), ElementsAre(1, 7, 1));
  EXPECT_EQ(rig->core.VersionOf(kThird), 1U);
  EXPECT_EQ(rig->core.Stats().staged_bytes, 0U);
}

TEST_F(ObservationTest, InARoundItCountsAsAnObservationOfWhatItIs) {
  const auto rig = Rig(proto::Mode::kBsp);
  PushRound(rig.get(), 1, 1, std::nullopt);
  PushRound(rig.get(), 2, 1, 3);
  Commit(rig.get(), 1, {1, 1});
  EXPECT_THAT(ThirdOf(*rig), Each(2.0F)) << "the mean of 1 and 3";
  EXPECT_THAT(rig->Versions(), ElementsAre(1, 1, 1));
  PushRound(rig.get(), 1, 2, std::nullopt);
  PushRound(rig.get(), 2, 2, std::nullopt);
  Commit(rig.get(), 2, {2, 2});
  EXPECT_THAT(ThirdOf(*rig), Each(2.0F));
  EXPECT_THAT(rig->Versions(), ElementsAre(2, 2, 1));
}

/// The mean of three equal values is another one, by rounding.
TEST_F(ObservationTest, ARoundInWhichNobodyHasMovedItLeavesItToTheBit) {
  constexpr float kValue = 0.9F;
  ASSERT_NE((kValue + kValue + kValue) / 3, kValue);
  const auto rig = Rig(proto::Mode::kBsp);
  PushRound(rig.get(), 1, 1, kValue);
  PushRound(rig.get(), 2, 1, kValue);
  Commit(rig.get(), 1, {1, 1});
  EXPECT_THAT(ThirdOf(*rig), Each(kValue));
  PushRound(rig.get(), 1, 2, std::nullopt);
  PushRound(rig.get(), 2, 2, std::nullopt);
  PushRound(rig.get(), 3, 2, std::nullopt, 1);
  Commit(rig.get(), 2, {2, 2, 1});
  EXPECT_THAT(ThirdOf(*rig), Each(kValue));
  EXPECT_THAT(rig->Versions(), ElementsAre(2, 2, 1));
}

/// The bytes of an answer, as they were sent.
std::span<const std::byte> BytesOf(const Answer<proto::PullReply>& answer) {
  return std::as_bytes(std::span(answer.values));
}

/// The values of an answer, decoded.
std::vector<float> ValuesOf(const Answer<proto::PullReply>& answer) {
  const proto::PullReply& reply = answer.message;
  std::vector<float> values;
  std::span<const std::byte> rest = BytesOf(answer);
  for (const proto::PullReply::Chunk& chunk : reply.chunks) {
    std::vector<float> part(chunk.element_count);
    const uint64_t size = reply.encoding.SizeOf(chunk.element_count);
    const Status status = codec::Decode(reply.encoding, rest.first(size), part);
    PS_CHECK(status.ok()) << status;
    values.insert(values.end(), part.begin(), part.end());
    rest = rest.subspan(size);
  }
  return values;
}

/// A shard whose parameters are no bf16, of which workers ask for bf16 to train with.
class RoundedPullTest : public ::testing::Test {
 protected:
  static constexpr float kValue = 1 - 0x1p-12F;

  void SetUp() override {
    rig_.SetUp();
    rig_.Push(rig_.WholeStep(1, 1, 0x1p-12F));
    rig_.OnlyPushReply();
    ASSERT_THAT(rig_.Values(), Each(kValue));
  }

  static proto::PullRequest Rounded(proto::PullRequest pull) {
    pull.encoding = kBf16;
    return pull;
  }

  ShardRig rig_;
};

TEST_F(RoundedPullTest, WhoTrainsGetsRoundedValuesInHalfTheBytes) {
  rig_.Pull(Rounded(rig_.PullAll(1)), 9);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].message.encoding, kBf16);
  EXPECT_EQ(ValuesOf(pulls[0]), std::vector<float>(7, 1));
  EXPECT_EQ(rig_.core.Stats().bytes_sent, 14U);
  EXPECT_THAT(rig_.Values(), Each(kValue)) << "the shard's own stay whole";
}

/// Of an average that nobody moves there is no later answer that would mend the error.
TEST(RoundedAverageTest, AnAverageComesAsItIs) {
  ShardRig rig;
  rig.setup.tensors[1].rule = UpdateRule::kAverage;
  rig.setup.tensors[1].average_rate = 1;
  rig.SetUp();
  rig.Push(rig.Frame(1, 1, {kFirst, kSecond}, 0));
  rig.Push(rig.Frame(1, 1, {kThird}, 1 - 0x1p-12F));
  rig.OnlyPushReply();
  proto::PullRequest pull = rig.PullAll(1);
  pull.encoding = kBf16;
  rig.Pull(pull);
  const auto pulls = rig.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 2U);
  EXPECT_EQ(pulls[0].message.encoding, kBf16);
  EXPECT_EQ(pulls[1].message.encoding, codec::Encoding());
  EXPECT_THAT(pulls[1].values, Each(1 - 0x1p-12F));
}

TEST_F(RoundedPullTest, AFusedAnswerIsRounded) {
  proto::PushRequest push = rig_.WholeStep(1, 2, 0);
  push.wants_pull = true;
  push.pull_encoding = kBf16;
  rig_.Push(push);
  rig_.OnlyPushReply();
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].message.encoding, kBf16);
}

TEST_F(RoundedPullTest, EvaluationsAndTheModelAreWhole) {
  proto::PullRequest evaluation = Rounded(rig_.PullAll(1));
  evaluation.is_evaluation = true;
  rig_.Pull(evaluation, 9);
  auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(ValuesOf(pulls[0]), std::vector<float>(7, kValue));
  rig_.Deliver(kCoordinator, proto::PullRequest{}, 10);
  pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(ValuesOf(pulls[0]), std::vector<float>(7, kValue));
}

}  // namespace
}  // namespace ps::server
