#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "ps/base/crc32c.h"
#include "ps/proto/messages.h"
#include "tests/proto/sample.h"

namespace ps::proto {
namespace {

using testing::HasSubstr;
using tests::Flatten;
using tests::ParseFrame;
using tests::SameMessage;
using tests::SampleMessage;

using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

PushRequest GoldenPush() {
  PushRequest push;
  push.worker = WorkerId(1);
  push.incarnation = Incarnation(2);
  push.step = 3;
  push.lease = LeaseId(4);
  push.samples = 5;
  push.chunk_count = 1;
  push.chunks = {{MakeChunkKey(6, 7), 2, 0x01020304}};
  push.placement = 8;
  push.encoding = {ps::codec::EncodingKind::kBf16};
  tests::AttachPayload(push);
  return push;
}

HeaderBytes Encode(const FrameHeader& header) {
  HeaderBytes bytes;
  EncodeFrameHeader(header, bytes);
  return bytes;
}

/// Sets the header's own CRC right after an edit.
void Seal(HeaderBytes& bytes) {
  const uint32_t crc = Crc32c(std::span(bytes).first<36>());
  for (size_t i = 0; i < 4; ++i) {
    bytes[36 + i] = static_cast<std::byte>((crc >> (8 * i)) & 0xff);
  }
}

std::string Hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (size_t i = 0; i < bytes.size(); ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<size_t>(bytes[i]) >> 4];
    hex += kDigits[static_cast<size_t>(bytes[i]) & 15];
    hex += i % 16 == 15 ? '\n' : ' ';
  }
  return hex;
}

TEST(FrameTest, HeaderFieldsAreWhereTheProtocolSays) {
  FrameHeader header;
  header.type = 0x0003;
  header.header_bytes = 0x00112233;
  header.payload_bytes = 0x00000000'02345678;
  header.request_id = 0x1122334455667788;
  header.body_crc = 0xaabbccdd;
  EXPECT_THAT(
      Hex(Encode(header)),
      testing::StartsWith("53 50 53 50 14 00 03 00 00 00 00 00 33 22 11 00\n"
                          "78 56 34 02 00 00 00 00 88 77 66 55 44 33 22 11\ndd cc bb aa "));
  const auto back = DecodeFrameHeader(Encode(header), FrameLimits());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->type, header.type);
  EXPECT_EQ(back->header_bytes, header.header_bytes);
  EXPECT_EQ(back->payload_bytes, header.payload_bytes);
  EXPECT_EQ(back->request_id, header.request_id);
  EXPECT_EQ(back->body_crc, header.body_crc);
}

// Written by version 20. FlatBuffers may lay out a table in more than one way, so the pin is that
// these bytes are read, and that the same header is written around the same body.
constexpr std::string_view kGoldenPush =
    "53 50 53 50 14 00 04 00 00 00 00 00 80 00 00 00\n"
    "04 00 00 00 00 00 00 00 08 07 06 05 04 03 02 01\n"
    "7e 55 4c 19 d1 e4 b7 bb 28 00 00 00 00 00 00 00\n"
    "00 00 1e 00 40 00 04 00 20 00 28 00 30 00 00 00\n"
    "08 00 0c 00 10 00 00 00 14 00 00 00 38 00 18 00\n"
    "1e 00 00 00 01 00 00 00 05 00 00 00 01 00 00 00\n"
    "34 00 00 00 2c 00 00 00 01 00 00 00 00 00 00 00\n"
    "02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00\n"
    "04 00 00 00 00 00 00 00 08 00 00 00 00 00 00 00\n"
    "00 00 00 00 01 00 00 00 07 00 00 00 06 00 00 00\n"
    "02 00 00 00 04 03 02 01 00 00 00 00 00 00 00 00\n"
    "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"
    "00 00 00 3f ";

TEST(FrameTest, BytesOfThisVersionAreStillRead) {
  ASSERT_EQ(kProtocolVersion, 20) << "a new version gets golden bytes of its own";
  std::vector<std::byte> frame;
  for (size_t i = 0; i + 2 < kGoldenPush.size(); i += 3) {
    frame.push_back(
        static_cast<std::byte>(std::stoi(std::string(kGoldenPush.substr(i, 2)), nullptr, 16)));
  }
  const auto back = ParseFrame(frame);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(SameMessage(*back, GoldenPush()));
  const auto header = DecodeFrameHeader(
      std::span<const std::byte>(frame).first<kFrameHeaderBytes>(), FrameLimits());
  EXPECT_EQ(header->request_id, 0x0102030405060708U);
  EXPECT_EQ(Hex(Encode(*header)), kGoldenPush.substr(0, 3 * kFrameHeaderBytes));
}

TEST(FrameTest, PaddingFillsUpToThePayload) {
  FrameHeader header;
  header.header_bytes = 25;
  EXPECT_EQ(header.padding_bytes(), 0U) << "nothing to align";
  header.payload_bytes = 4;
  EXPECT_EQ(header.padding_bytes(), 63U);
  header.header_bytes = 24;
  EXPECT_EQ(header.padding_bytes(), 0U);
}

TEST(PayloadTest, IsTakenAsABufferByItsOnlyOwner) {
  auto received = std::make_shared<Buffer>(4096);
  const std::byte* const data = received->data();
  Payload payload = Payload::Own(std::move(received), 4000);
  std::optional<Payload> other = payload;
  EXPECT_EQ(payload.TakeBuffer().size(), 0U) << "somebody else reads it";
  EXPECT_EQ(payload.size(), 4000U);
  other.reset();
  Buffer taken = payload.TakeBuffer();
  EXPECT_EQ(taken.data(), data);
  EXPECT_EQ(taken.size(), 4000U);
  EXPECT_EQ(payload.size(), 0U);
}

TEST(PayloadTest, ThatIsBorrowedOrNotAlignedIsNotTaken) {
  auto received = std::make_shared<Buffer>(4096);
  Payload borrowed;
  borrowed.parts.push_back(received->bytes());
  EXPECT_EQ(borrowed.TakeBuffer().size(), 0U);
  Payload payload = Payload::Own(std::move(received), 4096);
  payload.parts.front() = payload.parts.front().subspan(4);
  EXPECT_EQ(payload.TakeBuffer().size(), 0U);
}

TEST(FrameTest, AStrangersBytesAreNoFrame) {
  HeaderBytes bytes{};
  const std::string_view http = "GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n";
  for (size_t i = 0; i < http.size(); ++i) {
    bytes[i] = static_cast<std::byte>(http[i]);
  }
  const auto header = DecodeFrameHeader(bytes, FrameLimits());
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.status().code(), StatusCode::kCorruption);
}

TEST(FrameTest, AnotherVersionIsToldBothNumbers) {
  FrameHeader header;
  header.version = 2;
  header.type = 999;
  const auto back = DecodeFrameHeader(Encode(header), FrameLimits());
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(std::string(back.status().message()), HasSubstr("version 2"));
  EXPECT_THAT(std::string(back.status().message()), HasSubstr("speaks 20"));
}

TEST(FrameTest, UnknownTypesAndFlagsAreRefused) {
  const auto expect_refused = [](const FrameHeader& header) {
    const auto back = DecodeFrameHeader(Encode(header), FrameLimits());
    ASSERT_FALSE(back.ok());
    EXPECT_EQ(back.status().code(), StatusCode::kInvalidArgument);
  };
  expect_refused({.type = 0});
  expect_refused({.type = kMessageTypeMax + 1});
  expect_refused({.type = 1, .flags = 1});
}

TEST(FrameTest, LengthsOverTheirLimitAreRefusedBeforeMemoryIsTaken) {
  const FrameLimits limits{.header_bytes_max = 100, .payload_bytes_max = 1000};
  const auto code = [&](uint32_t header_bytes, uint64_t payload_bytes) {
    return DecodeFrameHeader(
               Encode({.type = 1, .header_bytes = header_bytes, .payload_bytes = payload_bytes}),
               limits)
        .status()
        .code();
  };
  EXPECT_EQ(code(100, 1000), StatusCode::kOk);
  EXPECT_EQ(code(101, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(0, 1001), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(UINT32_MAX, UINT64_MAX), StatusCode::kInvalidArgument);
}

TEST(FrameTest, EveryFlippedBitIsFound) {
  const Message messages[] = {StepAck{Incarnation(3), 4}, GoldenPush()};
  for (const Message& message : messages) {
    const auto frame = Flatten(EncodeMessage(message, 77));
    const auto header = *DecodeFrameHeader(
        std::span<const std::byte>(frame).first<kFrameHeaderBytes>(), FrameLimits());
    const size_t padding_begin = kFrameHeaderBytes + header.header_bytes;
    const size_t padding_end = padding_begin + header.padding_bytes();
    for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
      auto flipped = frame;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      const auto back = ParseFrame(flipped);
      if (bit / 8 >= padding_begin && bit / 8 < padding_end) {
        ASSERT_TRUE(back.ok() && SameMessage(*back, message)) << "padding has no meaning";
      } else {
        ASSERT_FALSE(back.ok()) << "bit " << bit;
      }
    }
  }
}

TEST(FrameTest, EveryTruncationIsFound) {
  const auto frame = Flatten(EncodeMessage(GoldenPush(), 77));
  const auto header = *DecodeFrameHeader(
      std::span<const std::byte>(frame).first<kFrameHeaderBytes>(), FrameLimits());
  const auto body = std::span<const std::byte>(frame).subspan(kFrameHeaderBytes);
  for (size_t size = 0; size < frame.size(); ++size) {
    EXPECT_FALSE(ParseFrame(std::span<const std::byte>(frame).first(size)).ok());
  }
  const auto payload = GoldenPush().payload;
  for (size_t size = 0; size < header.header_bytes; ++size) {
    EXPECT_FALSE(DecodeMessage(header, body.first(size), payload).ok());
    // The same, from a sender that counts and sums what it cuts off.
    FrameHeader lying = header;
    lying.header_bytes = static_cast<uint32_t>(size);
    lying.body_crc = Crc32c(payload.bytes(), Crc32c(body.first(size)));
    EXPECT_FALSE(DecodeMessage(lying, body.first(size), payload).ok()) << size;
  }
}

TEST(FrameTest, HeaderEditsWithARightChecksumNeverPassForThisVersion) {
  const HeaderBytes good = Encode({.type = 1});
  for (size_t i = 0; i < 12; ++i) {  // magic, version, type, flags
    HeaderBytes bytes = good;
    bytes[i] = static_cast<std::byte>(static_cast<uint8_t>(bytes[i]) + 0x80);
    Seal(bytes);
    EXPECT_FALSE(DecodeFrameHeader(bytes, FrameLimits()).ok()) << i;
  }
}

}  // namespace
}  // namespace ps::proto
