#include "ps/net/internal/send_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "ps/base/random.h"
#include "tests/net/test_node.h"

namespace ps::net {
namespace {

void Append(std::vector<std::byte>& out, const iovec& part, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(part.iov_base);
  out.insert(out.end(), begin, begin + bytes);
}

/// What a socket that takes `bytes` at a time would have got.
void Drain(SendQueue& queue, size_t bytes, size_t parts_max, std::vector<std::byte>& out) {
  std::vector<iovec> parts(parts_max);
  size_t left = bytes;
  const size_t count = queue.Gather(parts);
  ASSERT_GT(count, 0U);
  for (size_t i = 0; i < count && left > 0; ++i) {
    const size_t n = std::min(left, parts[i].iov_len);
    Append(out, parts[i], n);
    left -= n;
  }
  queue.Sent(bytes - left);
}

/// A frame of several payload parts, and its bytes.
proto::EncodedMessage Frame(
    const std::vector<std::vector<std::byte>>& parts, std::vector<std::byte>& bytes) {
  proto::PushRequest push;
  for (const auto& part : parts) {
    if (!part.empty()) {
      push.chunks.push_back({ChunkKey(push.chunks.size()), static_cast<uint32_t>(part.size() / 4)});
    }
    push.payload.parts.push_back(part);
  }
  proto::EncodedMessage frame = proto::EncodeMessage(push, 1);
  bytes.insert(bytes.end(), frame.head.begin(), frame.head.end());
  for (const auto& part : parts) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return frame;
}

TEST(SendQueueTest, BytesLeaveInOrderWhateverTheSocketTakes) {
  for (const size_t step : {size_t{1}, size_t{13}, size_t{64}, size_t{5000}}) {
    for (const size_t parts_max : {size_t{1}, size_t{2}, size_t{64}}) {
      SendQueue queue;
      std::vector<std::byte> expected;
      std::vector<std::byte> sent;
      std::vector<std::vector<std::byte>> parts = {
          PatternBytes(100, 1), {}, PatternBytes(4, 2), PatternBytes(1000, 3), {}};
      for (int i = 0; i < 5; ++i) {
        queue.Push(Frame(parts, expected));
      }
      EXPECT_EQ(queue.bytes(), expected.size());
      while (!queue.empty()) {
        Drain(queue, step, parts_max, sent);
      }
      EXPECT_EQ(sent, expected);
      EXPECT_EQ(queue.bytes(), 0U);
    }
  }
}

TEST(SendQueueTest, SentCountsTheFramesThatAreComplete) {
  SendQueue queue;
  std::vector<std::byte> first;
  std::vector<std::byte> second;
  queue.Push(Frame({}, first));
  queue.Push(Frame({}, second));
  EXPECT_EQ(queue.Sent(first.size() - 1), 0U);
  EXPECT_EQ(queue.Sent(1 + second.size()), 2U);
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueueTest, KeptPayloadSurvivesItsOwnerWhereverSendingStopped) {
  const auto pool = std::make_shared<BufferPool>(1 << 20);
  for (const size_t sent_before : {size_t{0}, size_t{30}, size_t{400}, size_t{500}, size_t{1200}}) {
    SendQueue queue;
    std::vector<std::byte> expected;
    std::vector<std::byte> sent;
    std::vector<std::vector<std::byte>> parts = {
        PatternBytes(200, 1), PatternBytes(300, 2), PatternBytes(1000, 3)};
    queue.Push(Frame(parts, expected));
    if (sent_before > 0) {
      Drain(queue, sent_before, 8, sent);
    }
    queue.KeepBorrowed(*pool);
    for (auto& part : parts) {
      std::ranges::fill(part, std::byte{0xee});
    }
    EXPECT_EQ(queue.bytes(), expected.size() - sent_before);
    while (!queue.empty()) {
      Drain(queue, 77, 2, sent);
    }
    EXPECT_EQ(sent, expected) << "after " << sent_before << " bytes";
  }
}

TEST(SendQueueTest, AnOwnedPayloadIsNotCopied) {
  const auto pool = std::make_shared<BufferPool>(1 << 20);
  const auto buffer = std::make_shared<Buffer>(4096);
  proto::PushRequest push;
  push.chunks.push_back({ChunkKey(1), 1024});
  push.payload = proto::Payload::Own(buffer, 4096);
  SendQueue queue;
  queue.Push(proto::EncodeMessage(push, 1));
  queue.KeepBorrowed(*pool);
  std::array<iovec, 4> parts{};
  ASSERT_EQ(queue.Gather(parts), 2U);
  EXPECT_EQ(parts[1].iov_base, buffer->data());
}

TEST(SendQueueTest, FramesAreSealedAsTheyComeToBeSent) {
  const auto buffer = std::make_shared<Buffer>(SendQueue::kSealBytes);
  std::memset(buffer->data(), 7, buffer->size());
  proto::PushRequest push;
  push.chunks.push_back({ChunkKey(1), static_cast<uint32_t>(SendQueue::kSealBytes / 4)});
  push.payload = proto::Payload::Own(buffer, buffer->size());
  const std::vector<std::byte> head = proto::EncodeMessage(push, 1).head;
  SendQueue queue;
  for (int i = 0; i < 3; ++i) {
    queue.Push(proto::EncodeUnsealed(push, 1));
  }
  std::array<iovec, 8> parts{};
  ASSERT_EQ(queue.Gather(parts), 2U) << "the second frame's checksum can wait";
  EXPECT_EQ(parts[1].iov_base, buffer->data());
  std::vector<std::byte> sent;
  while (!queue.empty()) {
    Drain(queue, 100'000, parts.size(), sent);
  }
  ASSERT_EQ(sent.size(), 3 * (head.size() + buffer->size()));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::ranges::equal(
        head, std::span(sent).subspan(i * (head.size() + buffer->size()), head.size())));
  }
}

}  // namespace
}  // namespace ps::net
