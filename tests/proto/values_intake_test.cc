#include "ps/proto/values_intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace ps::proto {
namespace {

using ::testing::ElementsAre;

constexpr ChunkKey kSmallChunk = MakeChunkKey(0, 0);
constexpr ChunkKey kLargeChunk = MakeChunkKey(1, 0);

PullReply::Chunk Entry(ChunkKey key, uint32_t begin, uint32_t count) {
  return {key, 5, count, begin};
}

/// With the values 0, 1, 2, ...
PullReply Reply(std::vector<PullReply::Chunk> chunks, size_t elements) {
  PullReply reply;
  reply.chunks = std::move(chunks);
  auto buffer = std::make_shared<Buffer>(elements * sizeof(float));
  for (size_t i = 0; i < elements; ++i) {
    buffer->floats()[i] = static_cast<float>(i);
  }
  reply.payload = Payload::Own(std::move(buffer), elements * sizeof(float));
  return reply;
}

class ValuesIntakeTest : public ::testing::Test {
 protected:
  Result<bool> Take(const PullReply& reply) {
    return intake_.Take(reply, [this](size_t index, uint32_t begin, std::span<const float> values) {
      taken_.push_back(
          std::to_string(index) + " from " + std::to_string(begin) + ": " +
          std::to_string(static_cast<int>(values.front())) + ".." +
          std::to_string(static_cast<int>(values.back())));
      return status_;
    });
  }

  // The second chunk travels in parts of 4, 4 and 1 elements.
  ValuesIntake intake_{{{kSmallChunk, 2, 0, ShardId(0)}, {kLargeChunk, 9, 0, ShardId(0)}}, 16};
  std::vector<std::string> taken_;
  Status status_;
};

TEST_F(ValuesIntakeTest, ValuesThatAreNoF32AreRefused) {
  PullReply reply = Reply({Entry(kSmallChunk, 0, 2)}, 2);
  reply.encoding = {ps::codec::EncodingKind::kBf16};
  EXPECT_EQ(Take(reply).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(taken_.empty());
}

TEST_F(ValuesIntakeTest, EachPartIsTakenOnceInWhateverOrder) {
  EXPECT_TRUE(*Take(Reply({Entry(kLargeChunk, 8, 1)}, 1)));
  EXPECT_TRUE(*Take(Reply({Entry(kSmallChunk, 0, 2), Entry(kLargeChunk, 8, 1)}, 3)));
  EXPECT_FALSE(*Take(Reply({Entry(kSmallChunk, 0, 2)}, 2)));
  EXPECT_FALSE(intake_.is_complete());
  EXPECT_TRUE(*Take(Reply({Entry(kLargeChunk, 4, 4), Entry(kLargeChunk, 0, 4)}, 8)));
  EXPECT_TRUE(intake_.is_complete());
  EXPECT_THAT(
      taken_, ElementsAre("1 from 8: 0..0", "0 from 0: 0..1", "1 from 4: 0..3", "1 from 0: 4..7"));
}

TEST_F(ValuesIntakeTest, OnlyChunksInFullAreHeld) {
  EXPECT_TRUE(*Take(Reply({Entry(kLargeChunk, 0, 4)}, 4)));
  EXPECT_TRUE(intake_.Held().empty());
  EXPECT_TRUE(*Take(Reply({Entry(kSmallChunk, 0, 2)}, 2)));
  ASSERT_EQ(intake_.Held().size(), 1U);
  EXPECT_EQ(intake_.Held()[0].key, kSmallChunk);
}

TEST_F(ValuesIntakeTest, WhatIsNoPartIsRefused) {
  for (const PullReply::Chunk& entry :
       {Entry(MakeChunkKey(2, 0), 0, 2),
        Entry(kLargeChunk, 1, 4),
        Entry(kLargeChunk, 0, 9),
        Entry(kSmallChunk, 2, 0)}) {
    EXPECT_EQ(Take(Reply({entry}, 9)).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(
      Take(Reply({Entry(kSmallChunk, 0, 2)}, 1)).status().code(), StatusCode::kInvalidArgument)
      << "fewer values than it says";
  EXPECT_TRUE(taken_.empty());
}

TEST_F(ValuesIntakeTest, WhatCouldNotBeKeptIsNotHere) {
  status_ = Status::Io("full");
  EXPECT_EQ(Take(Reply({Entry(kSmallChunk, 0, 2)}, 2)).status().code(), StatusCode::kIo);
  EXPECT_TRUE(intake_.Held().empty());
  status_ = Status::Ok();
  EXPECT_TRUE(*Take(Reply({Entry(kSmallChunk, 0, 2)}, 2)));
}

TEST_F(ValuesIntakeTest, OfNoChunksAllAreHere) {
  EXPECT_TRUE(ValuesIntake().is_complete());
  EXPECT_TRUE(ValuesIntake({}, 16).is_complete());
}

}  // namespace
}  // namespace ps::proto
