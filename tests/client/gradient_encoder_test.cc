#include "ps/client/gradient_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ps/client/host_tensors.h"
#include "ps/proto/chunks.h"

namespace ps::client {
namespace {

/// A frame of 12 bytes: parts of 3 elements.
constexpr size_t kPartBytes = 12;
constexpr codec::Encoding kWhole{codec::EncodingKind::kF32};

/// A tensor of 10 elements in chunks of 7 and 3, one of 4, one of 2 that travels as f32.
ChunkLayout LayoutOf(const codec::Encoding& encoding) {
  proto::Placement placement;
  placement.chunks = {
      {MakeChunkKey(0, 0), 7, 0, ShardId(0)},
      {MakeChunkKey(0, 1), 3, 7, ShardId(1)},
      {MakeChunkKey(1, 0), 4, 0, ShardId(0)},
      {MakeChunkKey(2, 0), 2, 0, ShardId(0)}};
  const std::vector<codec::Encoding> encodings = {encoding, encoding, kWhole};
  return ChunkLayout::Make({10, 4, 2}, placement, encodings).value();
}

/// What a server decodes of every part of the gradient, where the f32 values would lie.
std::vector<float> Arrived(const ChunkLayout& layout, const StepGradient& gradient) {
  std::vector<float> values(static_cast<size_t>(layout.element_count()));
  const proto::ChunkParts parts(kPartBytes);
  for (const ChunkLayout::Chunk& chunk : layout.chunks()) {
    for (uint32_t part = 0; part < parts.CountOf(chunk.element_count); ++part) {
      const auto [begin, count] = parts.At(chunk.element_count, part);
      const Status status = codec::Decode(
          gradient.EncodingOf(chunk),
          gradient.Piece(chunk, begin, count),
          std::span(values).subspan(static_cast<size_t>(chunk.offset) + begin, count));
      PS_CHECK(status.ok()) << status;
    }
  }
  return values;
}

/// The sum of what arrives of so many steps with the same gradient, in a layout of the encoding.
std::vector<double> Sum(const codec::Encoding& encoding, bool has_feedback, int steps) {
  const ChunkLayout layout = LayoutOf(encoding);
  HostTensors tensors = HostTensors::Make(layout, 1).value();
  GradientEncoder encoder(layout, kPartBytes, has_feedback);
  std::vector<double> sum(static_cast<size_t>(layout.element_count()));
  for (int step = 0; step < steps; ++step) {
    const auto gradient = tensors.Lend().value();
    for (size_t i = 0; i < sum.size(); ++i) {
      gradient->floats()[i] = static_cast<float>(i) * 0.01F;
    }
    for (uint32_t tensor = 3; tensor-- > 0;) {
      encoder.Encode(tensor, gradient->floats());
    }
    const std::vector<float> arrived = Arrived(layout, *gradient);
    EXPECT_EQ(arrived, Arrived(layout, *gradient)) << "sent again";
    std::ranges::transform(arrived, sum, sum.begin(), std::plus<>());
  }
  return sum;
}

/// The elements of a flat gradient that chunks have.
std::vector<size_t> Used() {
  const ChunkLayout layout = LayoutOf(kWhole);
  std::vector<size_t> used;
  for (const ChunkLayout::Chunk& chunk : layout.chunks()) {
    for (size_t i = 0; i < chunk.element_count; ++i) {
      used.push_back(static_cast<size_t>(chunk.offset) + i);
    }
  }
  return used;
}

constexpr codec::Encoding kEncodings[] = {
    kWhole,
    {codec::EncodingKind::kBf16},
    {codec::EncodingKind::kInt8},
    {codec::EncodingKind::kInt4},
    {codec::EncodingKind::kTopk, 10'000}};

TEST(GradientEncoderTest, WithFeedbackEverythingArrives) {
  constexpr int kSteps = 200;
  for (const codec::Encoding& encoding : kEncodings) {
    const std::vector<double> sum = Sum(encoding, true, kSteps);
    for (const size_t i : Used()) {
      const double gradient = static_cast<double>(i) * 0.01;
      EXPECT_NEAR(sum[i], kSteps * gradient, 5 * gradient + 1e-3)
          << encoding.ToText() << ", element " << i;
    }
  }
}

TEST(GradientEncoderTest, WithoutFeedbackWhatIsLostIsLost) {
  // Of each part of 3 the largest; the others never.
  const std::vector<double> sum = Sum({codec::EncodingKind::kTopk, 10'000}, false, 10);
  EXPECT_EQ(sum[0], 0);
  EXPECT_EQ(sum[1], 0);
  EXPECT_GT(sum[2], 0);
  EXPECT_GT(sum[6], 0) << "a part of its own";
  EXPECT_EQ(sum[7], 0);
}

/// Encodes the same gradient again and again, with changes in between.
class ChangingTest : public ::testing::Test {
 protected:
  static constexpr codec::Encoding kTopk{codec::EncodingKind::kTopk, 10'000};
  static constexpr codec::Encoding kInt4{codec::EncodingKind::kInt4};

  void Step() { StepThatHandsOver(0); }

  /// So many tensors, those that are ready last, are handed over.
  void StepThatHandsOver(uint32_t tensors) {
    const ChunkLayout layout = LayoutOf(encoding_);
    const auto gradient = tensors_.Lend().value();
    for (size_t i = 0; i < sum_.size(); ++i) {
      gradient->floats()[i] = static_cast<float>(i) * 0.01F;
    }
    is_whole_.clear();
    for (uint32_t tensor = 3; tensor-- > 0;) {
      if (tensor < tensors || encoder_.EndsFeedback(tensor)) {
        encoder_.HandOver(tensor, gradient.get());
      } else {
        encoder_.Encode(tensor, gradient->floats());
      }
      is_whole_.insert(is_whole_.begin(), gradient->IsWhole(tensor));
    }
    const std::vector<float> arrived = Arrived(layout, *gradient);
    EXPECT_EQ(arrived, Arrived(layout, *gradient)) << "sent again";
    std::ranges::transform(arrived, sum_, sum_.begin(), std::plus<>());
    ++steps_;
  }

  void Change(const codec::Encoding& encoding, bool has_feedback) {
    encoding_ = encoding;
    encoder_.Change(LayoutOf(encoding), has_feedback);
  }

  /// As much has arrived as was computed.
  void ExpectAllArrived() {
    for (const size_t i : Used()) {
      EXPECT_NEAR(sum_[i], steps_ * static_cast<double>(i) * 0.01, 1e-5) << "element " << i;
    }
  }

  codec::Encoding encoding_ = kTopk;
  HostTensors tensors_ = HostTensors::Make(LayoutOf(kWhole), 1).value();
  GradientEncoder encoder_{LayoutOf(kTopk), kPartBytes, true};
  std::vector<double> sum_ =
      std::vector<double>(static_cast<size_t>(LayoutOf(kWhole).element_count()));
  std::vector<bool> is_whole_;  // tensors of the newest step
  int steps_ = 0;
};

TEST_F(ChangingTest, WhatIsKeptGoesWithTheNextGradientThatIsWhole) {
  Step();
  Step();
  EXPECT_GT(encoder_.TakeHeldBack(), 0.1);
  Change(kWhole, true);
  Step();
  ExpectAllArrived();
  Step();
  ExpectAllArrived();
  EXPECT_EQ(encoder_.TakeHeldBack(), 0) << "nothing is kept any more";
}

TEST_F(ChangingTest, WhatIsKeptIsKeptInAnotherEncoding) {
  Step();
  Step();
  Change(kInt4, true);
  Step();
  Change({codec::EncodingKind::kBf16}, true);
  Step();
  Change(kWhole, false);
  Step();
  ExpectAllArrived();
}

TEST_F(ChangingTest, WhatIsKeptGoesWithTheFirstGradientAfterTheEndOfFeedback) {
  for (const codec::Encoding& encoding : kEncodings) {
    Change(encoding, true);
    Step();
    Change(encoding, false);
    Step();
    ExpectAllArrived();
    EXPECT_EQ(is_whole_[0], encoding.is_lossy()) << encoding.ToText();
    encoder_.TakeHeldBack();
    Change(kWhole, false);
    Step();
    ExpectAllArrived();
    EXPECT_EQ(encoder_.TakeHeldBack(), 0);
  }
}

TEST_F(ChangingTest, WhatIsKeptGoesWithTheLastGradientWhole) {
  for (const codec::Encoding& encoding : kEncodings) {
    Change(encoding, true);
    Step();
    Step();
    StepThatHandsOver(3);
    ExpectAllArrived();
    EXPECT_EQ(is_whole_, std::vector<bool>({encoding.is_lossy(), encoding.is_lossy(), false}))
        << encoding.ToText() << ": the third tensor is f32 anyway";
    encoder_.TakeHeldBack();
    Change(kWhole, true);
    Step();
    ExpectAllArrived();
    EXPECT_EQ(encoder_.TakeHeldBack(), 0) << "it was handed over once";
  }
}

/// The worker was told to leave in the middle of a step, some of which has gone.
TEST_F(ChangingTest, OfATensorThatIsEncodedAlreadyTheRestStaysKept) {
  Step();
  StepThatHandsOver(1);
  EXPECT_EQ(is_whole_, std::vector<bool>({true, false, false}));
  std::vector<double> whole(10);
  for (size_t i = 0; i < whole.size(); ++i) {
    whole[i] = steps_ * static_cast<double>(i) * 0.01;
    EXPECT_NEAR(sum_[i], whole[i], 1e-5) << "element " << i << " of the first tensor";
  }
  Change(kWhole, true);
  Step();
  ExpectAllArrived();
}

TEST_F(ChangingTest, AStepAfterTheLastOneKeepsAnew) {
  Step();
  StepThatHandsOver(3);
  ExpectAllArrived();
  Step();
  EXPECT_EQ(is_whole_, std::vector<bool>(3)) << "the memory is lent anew";
  EXPECT_GT(encoder_.TakeHeldBack(), 0.1);
  StepThatHandsOver(3);
  ExpectAllArrived();
}

TEST_F(ChangingTest, WithoutFeedbackThereIsNothingToHandOver) {
  Change(kInt4, false);
  StepThatHandsOver(3);
  EXPECT_EQ(is_whole_, std::vector<bool>(3));
}

TEST_F(ChangingTest, FeedbackThatBeginsLaterKeepsFromThenOn) {
  Change(kTopk, false);
  Step();
  EXPECT_EQ(encoder_.TakeHeldBack(), 0);
  std::ranges::fill(sum_, 0);
  steps_ = 0;
  Change(kTopk, true);
  Step();
  Change(kWhole, true);
  Step();
  ExpectAllArrived();
}

}  // namespace
}  // namespace ps::client
