#include "ps/client/pull_intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

namespace ps::client {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr ChunkKey kSmall = MakeChunkKey(0, 0);
constexpr ChunkKey kLarge = MakeChunkKey(1, 0);

/// A chunk of 2 elements at 0 and one of 7 at 16, which travels in parts of 3, 3 and 1.
class PullIntakeTest : public ::testing::Test {
 protected:
  PullIntakeTest()
      : intake_(ShardId(3), {{kSmall, ShardId(3), 2, 0}, {kLarge, ShardId(3), 7, 16}}, 12) {}

  struct Piece {
    ChunkKey key;
    uint32_t begin = 0;
    uint32_t count = 0;
    Version version = 0;
    float value = 0;
  };

  /// Takes one frame and stores what is fresh. Returns how many chunks it completed.
  uint32_t Take(uint64_t request_id, const std::vector<Piece>& pieces) {
    const auto taken = TryTake(request_id, pieces);
    EXPECT_TRUE(taken.ok()) << taken.status();
    return taken.ok() ? *taken : 0;
  }

  Result<uint32_t> TryTake(uint64_t request_id, const std::vector<Piece>& pieces) {
    std::vector<float> values;
    proto::PullReply reply;
    reply.placement = placement_;
    for (const Piece& piece : pieces) {
      reply.chunks.push_back({piece.key, piece.version, piece.count, piece.begin});
      values.insert(values.end(), piece.count, piece.value);
    }
    reply.payload.parts.push_back(std::as_bytes(std::span(values)));
    PS_ASSIGN(const PullIntake::Taken taken, intake_.Take(request_id, reply, known_));
    for (const PullIntake::Fresh& fresh : taken.fresh) {
      std::memcpy(parameters_.data() + fresh.offset, fresh.bytes.data(), fresh.bytes.size());
    }
    return taken.completed_chunks;
  }

  static Piece Part(uint32_t part, Version version, float value) {
    return {kLarge, 3 * part, part == 2 ? 1U : 3U, version, value};
  }

  std::vector<float> Large() const { return {parameters_.begin() + 16, parameters_.begin() + 23}; }

  /// The version of kLarge; nothing when it is not held.
  std::optional<Version> HeldVersion() const {
    for (const proto::ChunkVersion& held : intake_.Held()) {
      if (held.key == kLarge) {
        return held.version;
      }
    }
    return std::nullopt;
  }

  PullIntake intake_;
  uint64_t placement_ = 1;  // of the frames
  uint64_t known_ = 1;      // to the worker
  std::vector<float> parameters_ = std::vector<float>(32, -1);
};

/// One frame with both chunks, as f32 or bf16; the numbers of the fresh pieces.
size_t TakeAs(
    PullIntake* intake, uint64_t request_id, Version version, const codec::Encoding& encoding) {
  proto::PullReply reply;
  reply.encoding = encoding;
  reply.placement = 1;
  std::vector<std::byte> bytes;
  for (const auto& [key, begin, count] :
       {std::tuple(kSmall, 0U, 2U), {kLarge, 0U, 3U}, {kLarge, 3U, 3U}, {kLarge, 6U, 1U}}) {
    reply.chunks.push_back({key, version, count, begin});
    bytes.resize(bytes.size() + encoding.SizeOf(count));
  }
  reply.payload.parts.push_back(bytes);
  const auto taken = intake->Take(request_id, reply, 1);
  EXPECT_TRUE(taken.ok()) << taken.status();
  return taken.ok() ? taken->fresh.size() : 0;
}

TEST_F(PullIntakeTest, WholeValuesTakeThePlaceOfRoundedOnesOfTheirVersion) {
  constexpr codec::Encoding kWholeValues{};
  constexpr codec::Encoding kRounded{codec::EncodingKind::kBf16};
  EXPECT_EQ(TakeAs(&intake_, 1, 5, kRounded), 4U);
  EXPECT_EQ(intake_.Held().size(), 2U);
  EXPECT_TRUE(intake_.Held(true).empty());
  EXPECT_EQ(TakeAs(&intake_, 2, 5, kRounded), 0U);
  EXPECT_EQ(TakeAs(&intake_, 3, 5, kWholeValues), 4U);
  EXPECT_EQ(intake_.Held(true).size(), 2U);
  EXPECT_EQ(TakeAs(&intake_, 4, 5, kRounded), 0U);
  EXPECT_EQ(TakeAs(&intake_, 5, 5, kWholeValues), 0U);
  EXPECT_EQ(TakeAs(&intake_, 6, 6, kRounded), 4U);
  EXPECT_TRUE(intake_.Held(true).empty());
}

TEST_F(PullIntakeTest, EncodingsThatNoServerSendsAreRefused) {
  proto::PullReply reply;
  reply.encoding = {codec::EncodingKind::kTopk, 10'000};
  EXPECT_THAT(
      std::string(intake_.Take(1, reply).status().message()),
      HasSubstr("sent values as topk:0.01, and they travel as f32 or bf16"));
}

/// The same chunks, from a shard that numbers its frames.
class NumberedFramesTest : public PullIntakeTest {
 protected:
  static constexpr codec::Encoding kInt8{codec::EncodingKind::kInt8};

  struct Numbered {
    ChunkKey key;
    uint32_t begin = 0;
    uint32_t count = 0;
    uint64_t number = 0;
    uint64_t base = 0;
    Version version = 1;
    float value = 0;
  };

  static Numbered Small(uint64_t number, uint64_t base, Version version, float value) {
    return {kSmall, 0, 2, number, base, version, value};
  }

  static Numbered LargePart(uint32_t part, uint64_t number, uint64_t base, float value) {
    return {kLarge, 3 * part, part == 2 ? 1U : 3U, number, base, number, value};
  }

  static proto::PullReply ReplyOf(const Numbered& piece, std::vector<std::byte>* bytes) {
    proto::PullReply reply;
    reply.placement = 1;
    reply.number = piece.number;
    reply.encoding = piece.base == 0 ? codec::Encoding() : kInt8;
    reply.chunks = {{piece.key, piece.version, piece.count, piece.begin, piece.base}};
    const std::vector<float> values(piece.count, piece.value);
    bytes->resize(reply.encoding.SizeOf(piece.count));
    codec::Encode(reply.encoding, values, {}, *bytes);
    reply.payload.parts = {*bytes};
    return reply;
  }

  /// Takes a frame; what is fresh is stored, or added.
  PullIntake::Taken TakeFrame(uint64_t request_id, const Numbered& piece) {
    std::vector<std::byte> bytes;
    auto taken = intake_.Take(request_id, ReplyOf(piece, &bytes), 1);
    EXPECT_TRUE(taken.ok()) << taken.status();
    for (const PullIntake::Fresh& fresh : taken->fresh) {
      std::vector<float> values(fresh.element_count);
      EXPECT_TRUE(codec::Decode(fresh.encoding, fresh.bytes, values).ok());
      for (uint32_t i = 0; i < fresh.element_count; ++i) {
        float& place = parameters_[static_cast<size_t>(fresh.offset) + i];
        place = fresh.is_difference ? place + values[i] : values[i];
      }
    }
    return std::move(taken).value();
  }

  std::string ErrorOf(const Numbered& piece) {
    std::vector<std::byte> bytes;
    return std::string(intake_.Take(1, ReplyOf(piece, &bytes), 1).status().message());
  }

  size_t HeldCount() const { return intake_.Held().size(); }
};

TEST_F(NumberedFramesTest, DifferencesAreAddedInTheirOrderAndOnce) {
  EXPECT_EQ(TakeFrame(1, Small(1, 0, 5, 10)).completed_chunks, 1U);
  EXPECT_EQ(TakeFrame(2, Small(2, 1, 6, 1)).completed_chunks, 1U);
  EXPECT_EQ(parameters_[0], 11);
  const PullIntake::Taken again = TakeFrame(2, Small(2, 1, 6, 1));
  EXPECT_TRUE(again.fresh.empty());
  EXPECT_FALSE(again.lacks_base);
  EXPECT_EQ(again.completed_chunks, 0U);
  EXPECT_EQ(TakeFrame(3, Small(7, 2, 6, 1)).completed_chunks, 1U)
      << "of the same version, but nearer to it";
  EXPECT_EQ(parameters_[1], 12);
  EXPECT_EQ(intake_.Held().front().version, 6U);
}

TEST_F(NumberedFramesTest, ADifferenceToWhatIsNotHereIsLeftOutUntilTheValueComes) {
  TakeFrame(1, Small(1, 0, 5, 10));
  const PullIntake::Taken taken = TakeFrame(3, Small(3, 2, 7, 1));
  EXPECT_TRUE(taken.fresh.empty());
  EXPECT_TRUE(taken.lacks_base);
  EXPECT_EQ(taken.completed_chunks, 0U);
  EXPECT_EQ(HeldCount(), 0U) << "so the next pull brings the value";
  EXPECT_EQ(TakeFrame(2, Small(2, 1, 6, 1)).fresh.size(), 1U) << "late, and right";
  EXPECT_EQ(HeldCount(), 0U);
  EXPECT_TRUE(TakeFrame(4, Small(4, 3, 8, 1)).lacks_base);
  EXPECT_EQ(TakeFrame(5, Small(5, 0, 8, 20)).completed_chunks, 1U);
  EXPECT_EQ(HeldCount(), 1U);
  EXPECT_EQ(parameters_[0], 20);
  TakeFrame(1, Small(1, 0, 5, 10));
  EXPECT_EQ(parameters_[0], 20) << "an older value";
}

TEST_F(NumberedFramesTest, PartsHaveBasesOfTheirOwn) {
  for (uint32_t part = 0; part < 3; ++part) {
    TakeFrame(1, LargePart(part, part + 1, 0, 10));
  }
  EXPECT_EQ(HeldCount(), 1U);
  TakeFrame(2, LargePart(0, 4, 1, 1));  // the answer ends here
  TakeFrame(3, LargePart(0, 5, 4, 1));
  TakeFrame(3, LargePart(1, 6, 2, 1));
  EXPECT_TRUE(TakeFrame(3, LargePart(2, 7, 1, 1)).lacks_base);
  EXPECT_EQ(Large(), (std::vector<float>{12, 12, 12, 11, 11, 11, 10}));
  EXPECT_EQ(HeldCount(), 0U);
  TakeFrame(4, LargePart(0, 8, 0, 20));
  TakeFrame(4, LargePart(1, 9, 0, 20));
  EXPECT_EQ(HeldCount(), 0U);
  EXPECT_EQ(TakeFrame(4, LargePart(2, 10, 0, 20)).completed_chunks, 1U);
  EXPECT_THAT(Large(), Each(20));
  EXPECT_EQ(HeldCount(), 1U);
}

TEST_F(NumberedFramesTest, AnswersThatWereGivenTwiceKeepWhatIsHeldInStep) {
  for (uint32_t part = 0; part < 3; ++part) {
    TakeFrame(1, LargePart(part, part + 1, 0, 10));
  }
  uint32_t completed = 0;
  for (uint64_t round = 0; round < 2; ++round) {
    for (uint32_t part = 0; part < 3; ++part) {
      const uint64_t number = 4 + 3 * round + part;
      const PullIntake::Taken taken = TakeFrame(2, LargePart(part, number, number - 3, 1));
      EXPECT_EQ(taken.fresh.size(), 1U);
      completed += taken.completed_chunks;
    }
  }
  EXPECT_EQ(completed, 1U);
  EXPECT_THAT(Large(), Each(12));
}

TEST_F(NumberedFramesTest, AChunkThatMovedOrAnotherLifeHasNoBase) {
  TakeFrame(1, Small(1, 0, 5, 10));
  intake_.Remove(kSmall);
  intake_.Add({kSmall, ShardId(3), 2, 0});
  EXPECT_TRUE(TakeFrame(2, Small(2, 1, 6, 1)).lacks_base);
  TakeFrame(3, Small(3, 0, 6, 10));
  std::vector<std::byte> bytes;
  proto::PullReply reply = ReplyOf(Small(4, 3, 7, 1), &bytes);
  reply.life = 1;
  const auto taken = intake_.Take(4, reply, 1);
  ASSERT_TRUE(taken.ok());
  EXPECT_TRUE(taken->lacks_base);
  EXPECT_EQ(parameters_[0], 10);
}

TEST_F(NumberedFramesTest, FramesWithoutNumberTakeThePlaceOfNumberedOnes) {
  TakeFrame(1, Small(1, 0, 5, 10));
  EXPECT_EQ(TakeFrame(2, Small(0, 0, 6, 20)).fresh.size(), 1U);
  EXPECT_EQ(parameters_[0], 20);
  EXPECT_TRUE(TakeFrame(3, Small(3, 1, 7, 1)).lacks_base);
}

TEST_F(NumberedFramesTest, WhatNoServerSendsIsRefused) {
  TakeFrame(1, Small(1, 0, 5, 10));
  EXPECT_THAT(ErrorOf(Small(2, 2, 6, 1)), HasSubstr("as a difference to frame 2"));
  EXPECT_THAT(
      ErrorOf(Small(2, 1, 6, std::numeric_limits<float>::infinity())),
      HasSubstr("a difference is not finite"));
  std::vector<std::byte> bytes;
  proto::PullReply reply = ReplyOf(Small(2, 1, 6, 1), &bytes);
  constexpr float kNegative = -1;
  std::memcpy(bytes.data(), &kNegative, sizeof(kNegative));
  EXPECT_THAT(std::string(intake_.Take(1, reply, 1).status().message()), HasSubstr("has no scale"));
  reply = ReplyOf(Small(2, 0, 6, 1), &bytes);
  reply.chunks[0].base = 1;
  EXPECT_THAT(
      std::string(intake_.Take(1, reply, 1).status().message()), HasSubstr("values have no base"));
  EXPECT_EQ(parameters_[0], 10);
}

TEST_F(PullIntakeTest, PartsMakeAChunkInWhateverOrderAndNumber) {
  std::vector<uint32_t> order = {0, 0, 1, 1, 2, 2};
  uint64_t request_id = 0;
  do {
    ++request_id;
    std::vector<uint32_t> seen;
    for (const uint32_t part : order) {
      const bool is_new = std::find(seen.begin(), seen.end(), part) == seen.end();
      if (is_new) {
        seen.push_back(part);
      }
      const auto value = static_cast<float>(request_id);
      ASSERT_EQ(
          Take(request_id, {Part(part, request_id, value)}), is_new && seen.size() == 3 ? 1U : 0U);
    }
    ASSERT_THAT(Large(), Each(static_cast<float>(request_id)));
    ASSERT_EQ(HeldVersion(), request_id);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(PullIntakeTest, SmallChunksAndTheRestOfALargeOneShareAFrame) {
  EXPECT_EQ(Take(1, {Part(0, 1, 5)}), 0U);
  EXPECT_EQ(Take(1, {Part(1, 1, 5)}), 0U);
  EXPECT_EQ(Take(1, {Part(2, 1, 5), {kSmall, 0, 2, 4, 6}}), 2U);
  EXPECT_EQ(parameters_[0], 6);
  EXPECT_EQ(parameters_[2], -1);
  EXPECT_THAT(Large(), Each(5));
  EXPECT_EQ(parameters_[23], -1);
  EXPECT_EQ(intake_.Held().size(), 2U);
}

TEST_F(PullIntakeTest, WhatIsCutShortCountsAsHeldAtItsOldVersion) {
  Take(1, {Part(0, 1, 5)});
  EXPECT_EQ(HeldVersion(), std::nullopt) << "nothing is whole yet";
  Take(1, {Part(1, 1, 5), Part(2, 1, 5)});
  EXPECT_EQ(HeldVersion(), 1U);
  Take(2, {Part(0, 2, 6), Part(1, 2, 6)});  // then the connection is lost
  EXPECT_EQ(HeldVersion(), 1U);
  EXPECT_EQ(Take(3, {Part(0, 2, 6)}), 0U) << "parts of another answer do not count";
  EXPECT_EQ(Take(3, {Part(1, 2, 6), Part(2, 2, 6)}), 1U);
  EXPECT_EQ(HeldVersion(), 2U);
  EXPECT_THAT(Large(), Each(6));
}

TEST_F(PullIntakeTest, AChunkOfSeveralVersionsIsHeldAtTheOldestOfThem) {
  EXPECT_EQ(Take(1, {Part(0, 4, 1), Part(1, 4, 1), Part(2, 6, 2)}), 1U);
  EXPECT_EQ(HeldVersion(), 4U);
  EXPECT_EQ(parameters_[22], 2);
  // The next answer brings all of it again, its last part unchanged.
  EXPECT_EQ(Take(2, {Part(0, 6, 2), Part(1, 6, 2), Part(2, 6, 2)}), 1U);
  EXPECT_EQ(HeldVersion(), 6U);
  EXPECT_THAT(Large(), Each(2));
}

TEST_F(PullIntakeTest, AnOlderAnswerDoesNotMixWithANewerOne) {
  Take(1, {Part(0, 1, 1)});
  Take(2, {Part(0, 2, 2)});
  EXPECT_EQ(Take(1, {Part(1, 1, 1), Part(2, 1, 1)}), 0U);
  EXPECT_EQ(HeldVersion(), std::nullopt);
  EXPECT_EQ(Take(2, {Part(1, 2, 2), Part(2, 2, 2)}), 1U);
  EXPECT_EQ(Take(1, {Part(1, 1, 1)}), 0U);
  EXPECT_THAT(Large(), Each(2));
  EXPECT_EQ(HeldVersion(), 2U);
}

TEST_F(PullIntakeTest, AnswersWithNothingNewAreCompleteAndStoreNothing) {
  Take(1, {{kSmall, 0, 2, 3, 7}, Part(0, 3, 7), Part(1, 3, 7), Part(2, 3, 7)});
  EXPECT_EQ(Take(2, {{kSmall, 0, 2, 3, 8}}), 1U);
  EXPECT_EQ(Take(2, {{kSmall, 0, 2, 3, 8}}), 0U) << "once";
  EXPECT_EQ(Take(2, {Part(0, 3, 8), Part(1, 2, 8), Part(2, 3, 8)}), 1U);
  EXPECT_EQ(parameters_[0], 7);
  EXPECT_THAT(Large(), Each(7));
  EXPECT_EQ(HeldVersion(), 3U);
}

TEST_F(PullIntakeTest, AFrameThatComesAgainAfterItsChunkHasComeCountsOnce) {
  constexpr ChunkKey kMoved = MakeChunkKey(2, 0);
  placement_ = 2;
  EXPECT_EQ(Take(1, {{kMoved, 0, 2, 4, 1}}), 1U) << "the worker does not know of it yet";
  known_ = 2;
  intake_.Add({kMoved, ShardId(3), 2, 24});
  EXPECT_EQ(Take(1, {{kMoved, 0, 2, 4, 1}}), 0U);
  EXPECT_EQ(parameters_[24], 1) << "it is of use all the same";
  EXPECT_EQ(Take(1, {{kSmall, 0, 2, 3, 1}}), 1U);
  EXPECT_EQ(Take(2, {{kMoved, 0, 2, 5, 2}}), 1U);
}

TEST_F(PullIntakeTest, AFrameThatComesAgainAfterItsChunkHasLeftCountsOnce) {
  placement_ = 3;
  EXPECT_EQ(Take(1, {{kSmall, 0, 2, 3, 1}}), 1U);
  known_ = 2;
  intake_.Remove(kSmall);
  EXPECT_EQ(Take(1, {{kSmall, 0, 2, 3, 1}}), 0U);
  EXPECT_EQ(Take(2, {{kSmall, 0, 2, 3, 1}}), 1U);
}

TEST_F(PullIntakeTest, WhatIsNeitherAChunkOfTheShardNorAPartIsRefused) {
  const std::vector<Piece> bad = {
      {MakeChunkKey(9, 0), 0, 2, 1, 0},
      {kSmall, 0, 1, 1, 0},
      {kSmall, 2, 2, 1, 0},
      {kLarge, 0, 7, 1, 0},
      {kLarge, 1, 3, 1, 0},
      {kLarge, 6, 3, 1, 0},
      {kLarge, 9, 1, 1, 0},
      {kLarge, UINT32_MAX, 1, 1, 0}};
  for (const Piece& piece : bad) {
    const auto taken = TryTake(1, {piece});
    ASSERT_FALSE(taken.ok()) << piece.begin << " " << piece.count;
    EXPECT_EQ(taken.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(taken.status().message()), HasSubstr("shard 3 sent chunk"));
  }
  EXPECT_TRUE(intake_.Held().empty());
  EXPECT_THAT(parameters_, Each(-1));
}

TEST_F(PullIntakeTest, AnAnswerShorterThanItsChunksIsRefused) {
  proto::PullReply reply;
  reply.chunks = {{kSmall, 1, 2, 0}};
  const float value = 1;
  reply.payload.parts.push_back(std::as_bytes(std::span(&value, 1)));
  EXPECT_EQ(intake_.Take(1, reply).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ps::client
