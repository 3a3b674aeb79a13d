#include "ps/net/internal/frame_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <variant>
#include <vector>

#include "ps/base/random.h"
#include "tests/net/test_node.h"

namespace ps::net {
namespace {

std::vector<std::byte> Bytes(const proto::Message& message, uint64_t request_id) {
  const proto::EncodedMessage frame = proto::EncodeMessage(message, request_id);
  std::vector<std::byte> bytes = frame.head;
  for (const auto& part : frame.payload.parts) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

/// Feeds `stream` in pieces of at most `piece_bytes` and collects the frames until one fails.
Status Feed(
    FrameReader& reader,
    std::span<const std::byte> stream,
    size_t piece_bytes,
    std::vector<FrameReader::Frame>& frames) {
  while (true) {
    PS_ASSIGN(std::optional<FrameReader::Frame> frame, reader.Next());
    if (frame.has_value()) {
      frames.push_back(*std::move(frame));
      continue;
    }
    if (stream.empty()) {
      return Status::Ok();
    }
    std::array<iovec, 2> targets{};
    const size_t count = reader.Targets(targets);
    size_t taken = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t n = std::min({targets[i].iov_len, stream.size(), piece_bytes - taken});
      std::memcpy(targets[i].iov_base, stream.data(), n);
      stream = stream.subspan(n);
      taken += n;
    }
    EXPECT_GT(taken, 0U);
    reader.Filled(taken);
  }
}

class FrameReaderTest : public testing::Test {
 protected:
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>(1 << 20);
  std::vector<FrameReader::Frame> frames_;
};

TEST_F(FrameReaderTest, FramesArriveWholeHoweverTheStreamIsCut) {
  const std::vector<size_t> sizes = {0, 4, 60, 4096, 16380, 16384, 65536, 70000, 0, 300'000, 8};
  std::vector<std::byte> stream;
  std::vector<std::vector<std::byte>> payloads;
  for (size_t i = 0; i < sizes.size(); ++i) {
    payloads.push_back(PatternBytes(sizes[i], i));
    const auto bytes = Bytes(BorrowedPush(payloads.back()), 100 + i);
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1000}, size_t{65536}, stream.size()}) {
    frames_.clear();
    FrameReader reader({}, pool_);
    ASSERT_TRUE(Feed(reader, stream, piece, frames_).ok()) << "pieces of " << piece;
    ASSERT_EQ(frames_.size(), sizes.size()) << "pieces of " << piece;
    EXPECT_TRUE(reader.is_between_frames());
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(frames_[i].request_id, 100 + i);
      const auto& push = std::get<proto::PushRequest>(frames_[i].message);
      EXPECT_TRUE(std::ranges::equal(push.payload.bytes(), payloads[i]));
      EXPECT_EQ(
          reinterpret_cast<uintptr_t>(push.payload.bytes().data()) % proto::kPayloadAlignment, 0U);
    }
  }
}

TEST_F(FrameReaderTest, ACutStreamLeavesNoFrameAndSaysSo) {
  const auto payload = PatternBytes(40'000, 1);
  const auto bytes = Bytes(BorrowedPush(payload), 5);
  for (const size_t cut : {size_t{1}, size_t{39}, size_t{40}, size_t{100}, bytes.size() - 1}) {
    frames_.clear();
    FrameReader reader({}, pool_);
    ASSERT_TRUE(Feed(reader, std::span(bytes).first(cut), 65536, frames_).ok());
    EXPECT_TRUE(frames_.empty());
    EXPECT_FALSE(reader.is_between_frames());
  }
}

TEST_F(FrameReaderTest, ALengthOverItsLimitIsRefusedBeforeMemoryIsTaken) {
  proto::FrameHeader header;
  header.type = proto::MessageTypeOf(proto::PushRequest{});
  header.header_bytes = 100;
  header.payload_bytes = uint64_t{1} << 50;
  std::array<std::byte, proto::kFrameHeaderBytes> bytes;
  proto::EncodeFrameHeader(header, bytes);
  FrameReader reader({}, pool_);
  const Status status = Feed(reader, bytes, bytes.size(), frames_);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(reader.request_id(), 0U);
}

TEST_F(FrameReaderTest, AFlippedBitAnywhereIsFoundOrMoreBytesAreAwaited) {
  const auto payload = PatternBytes(64, 1);
  const auto bytes = Bytes(BorrowedPush(payload), 77);
  const size_t padding_end = bytes.size() - payload.size();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<std::byte> damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    frames_.clear();
    FrameReader reader({}, pool_);
    const Status status = Feed(reader, damaged, damaged.size(), frames_);
    // Padding carries nothing and is not checked.
    const bool is_padding = bit / 8 < padding_end && frames_.size() == 1;
    EXPECT_TRUE(is_padding || status.code() == StatusCode::kCorruption) << "bit " << bit;
  }
}

TEST_F(FrameReaderTest, AFlippedBitInAnyPartOfALargePayloadIsFound) {
  const auto payload = PatternBytes(700'000, 3);
  const auto whole = Bytes(BorrowedPush(payload), 5);
  for (const size_t piece_bytes : {size_t{1'000'000}, size_t{300'000}, size_t{50'001}}) {
    FrameReader good(proto::FrameLimits(), pool_);
    frames_.clear();
    EXPECT_TRUE(Feed(good, whole, piece_bytes, frames_).ok());
    EXPECT_EQ(frames_.size(), 1U);
    for (size_t at = whole.size() - 1; at > 100'000; at -= 97'001) {
      auto stream = whole;
      stream[at] ^= std::byte{16};
      FrameReader reader(proto::FrameLimits(), pool_);
      EXPECT_EQ(Feed(reader, stream, piece_bytes, frames_).code(), StatusCode::kCorruption) << at;
    }
  }
}

TEST_F(FrameReaderTest, RandomBytesNeverBreakIt) {
  Random random(42);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> stream = Bytes(BorrowedPush(PatternBytes(128, 3)), 1);
    const size_t from = random.Below(stream.size());
    for (size_t i = from; i < stream.size(); ++i) {
      stream[i] = static_cast<std::byte>(random.Next());
    }
    frames_.clear();
    FrameReader reader({}, pool_);
    Feed(reader, stream, 1 + random.Below(300), frames_).Ignore("any outcome but a crash");
  }
}

}  // namespace
}  // namespace ps::net
