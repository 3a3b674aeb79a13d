#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include "ps/base/crc32c.h"
#include "ps/base/file.h"
#include "ps/proto/messages.h"
#include "tests/proto/sample.h"

namespace ps::proto {
namespace {

using testing::HasSubstr;
using tests::Flatten;
using tests::ParseFrame;
using tests::SameMessage;
using tests::SampleMessage;

constexpr size_t kMessageCount = std::variant_size_v<MessageKinds>;

PushRequest SmallPush() {
  PushRequest push;
  push.worker = WorkerId(2);
  push.incarnation = Incarnation(7);
  push.step = 5;
  push.lease = LeaseId(3);
  push.samples = 64;
  push.chunk_count = 2;
  push.chunks = {{MakeChunkKey(0, 0), 2}, {MakeChunkKey(1, 4), 1}};
  tests::AttachPayload(push);
  return push;
}

template <typename T, typename F>
Message Make(F edit) {
  T message;
  edit(message);
  return message;
}

/// Encodes, lets `change` edit header and FlatBuffer, sets the body CRC right again, decodes.
template <typename F>
Result<Message> DecodeChanged(const Message& message, F change) {
  const EncodedMessage encoded = EncodeMessage(message, 1);
  const std::span<const std::byte> head(encoded.head);
  FrameHeader header = *DecodeFrameHeader(head.first<kFrameHeaderBytes>(), FrameLimits());
  const auto* begin = encoded.head.data() + kFrameHeaderBytes;
  std::vector<std::byte> flatbuffer(begin, begin + header.header_bytes);
  Payload payload = encoded.payload;
  change(header, flatbuffer, payload);
  header.header_bytes = static_cast<uint32_t>(flatbuffer.size());
  header.payload_bytes = payload.size();
  header.body_crc = Crc32c(payload.bytes(), Crc32c(flatbuffer));
  return DecodeMessage(header, flatbuffer, std::move(payload));
}

TEST(MessageCodecTest, EveryMessageComesBackWithEveryMember) {
  for (size_t i = 0; i < kMessageCount; ++i) {
    const Message message = SampleMessage(i);
    ASSERT_EQ(message.index(), i);
    const auto back = ParseFrame(Flatten(EncodeMessage(message, 9)));
    ASSERT_TRUE(back.ok()) << MessageTypeName(MessageTypeOf(message)) << ": " << back.status();
    EXPECT_TRUE(SameMessage(message, *back)) << MessageTypeName(MessageTypeOf(message));
  }
}

/// Every message with every member filled, one frame after the other.
std::string AllFrames() {
  std::string frames;
  for (size_t i = 0; i < kMessageCount; ++i) {
    for (const std::byte byte : Flatten(EncodeMessage(SampleMessage(i), 7))) {
      frames += static_cast<char>(byte);
    }
  }
  return frames;
}

/// What another program of this version has written. A new version needs a file; where there is
/// none, this test fails and leaves what the present program writes.
TEST(MessageCodecTest, FramesOfThisVersionAreRead) {
  const std::string path = "tests/data/frames/v" + std::to_string(kProtocolVersion) + ".bin";
  const Result<std::string> file = ReadFile(path);
  if (!file.ok()) {
    std::ofstream(path, std::ios::binary) << AllFrames();
    FAIL() << file.status() << "; it has this program's frames now";
  }
  std::span<const std::byte> rest = std::as_bytes(std::span(*file));
  for (size_t i = 0; i < kMessageCount; ++i) {
    ASSERT_GE(rest.size(), kFrameHeaderBytes) << "the file has " << i << " frames";
    const auto header = DecodeFrameHeader(rest.first<kFrameHeaderBytes>(), FrameLimits());
    ASSERT_TRUE(header.ok()) << header.status();
    const size_t bytes = kFrameHeaderBytes + header->header_bytes + header->padding_bytes() +
                         static_cast<size_t>(header->payload_bytes);
    const auto back = ParseFrame(rest.first(std::min(bytes, rest.size())));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(SameMessage(SampleMessage(i), *back)) << MessageTypeName(header->type);
    rest = rest.subspan(bytes);
  }
  EXPECT_TRUE(rest.empty()) << "frames of messages that there are no more";
}

TEST(MessageCodecTest, EmptyMessagesComeBack) {
  std::vector<Message> messages = {
      PullReply{},
      Membership{},
      CommitRound{},
      StepReport{},
      ShardSetup{},
      JoinReply{},
      StatusReply{},
      Goodbye{},
      PushRequest{},
      ShardHeartbeat{}};
  for (const Message& message : messages) {
    const auto back = ParseFrame(Flatten(EncodeMessage(message, 0)));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(SameMessage(message, *back));
  }
}

TEST(MessageCodecTest, NamesAreTheTypesNames) {
  std::set<std::string_view> names;
  [&]<size_t... I>(std::index_sequence<I...>) {
    const auto check = [&]<typename T>(uint16_t type, const T*) {
      const std::string_view function = __PRETTY_FUNCTION__;
      const std::string_view name = MessageTypeName(type);
      EXPECT_THAT(std::string(function), HasSubstr("proto::" + std::string(name))) << type;
      names.insert(name);
    };
    (check(
         static_cast<uint16_t>(I + 1),
         static_cast<const std::variant_alternative_t<I, MessageKinds>*>(nullptr)),
     ...);
  }
  (std::make_index_sequence<kMessageCount>());
  EXPECT_EQ(names.size(), kMessageCount);
  EXPECT_EQ(MessageTypeName(0), "unknown");
  EXPECT_EQ(MessageTypeName(kMessageTypeMax + 1), "unknown");
}

TEST(MessageCodecTest, NotANumberAndInfinityRoundTripInReports) {
  StepReport report;
  report.steps.resize(3);
  report.steps[0].loss_sum = std::nan("");
  report.steps[1].loss_sum = std::numeric_limits<double>::infinity();
  report.steps[2].loss_sum = -std::numeric_limits<double>::infinity();
  JobStatus status;
  status.train_loss = std::nan("");
  const Message messages[] = {report, StatusReply{status}};
  for (const Message& message : messages) {
    EXPECT_TRUE(SameMessage(message, ParseFrame(Flatten(EncodeMessage(message, 1))).value()));
  }
}

TEST(MessageCodecTest, TheLargestNumbersRoundTrip) {
  PushRequest push;
  push.worker = WorkerId(UINT32_MAX);
  push.incarnation = Incarnation(UINT64_MAX);
  push.step = UINT64_MAX;
  push.held = {{ChunkKey(UINT64_MAX), UINT64_MAX}};
  const auto back = ParseFrame(Flatten(EncodeMessage(push, UINT64_MAX)));
  EXPECT_TRUE(SameMessage(Message(push), back.value()));
}

TEST(MessageCodecTest, PayloadStartsAtItsAlignmentAndTravelsUncopied) {
  const PushRequest push = SmallPush();
  const EncodedMessage encoded = EncodeMessage(push, 1);
  EXPECT_EQ(encoded.head.size() % kPayloadAlignment, 0U);
  ASSERT_EQ(encoded.payload.parts.size(), 1U);
  EXPECT_EQ(encoded.payload.parts[0].data(), push.payload.parts[0].data());
}

TEST(MessageCodecTest, PayloadPartsCountAsOneRunOfBytes) {
  PushRequest push = SmallPush();
  const auto bytes = push.payload.bytes();
  push.payload.parts = {bytes.first(8), bytes.subspan(8)};
  const auto back = ParseFrame(Flatten(EncodeMessage(push, 1)));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(SameMessage(Message(SmallPush()), *back));
}

TEST(MessageCodecTest, DecodesFromAnyAddress) {
  const EncodedMessage encoded = EncodeMessage(SampleMessage(3), 1);
  const auto header =
      *DecodeFrameHeader(std::span(encoded.head).first<kFrameHeaderBytes>(), FrameLimits());
  for (size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> moved(shift);
    const auto* begin = encoded.head.data() + kFrameHeaderBytes;
    moved.insert(moved.end(), begin, begin + header.header_bytes);
    EXPECT_TRUE(DecodeMessage(header, std::span(moved).subspan(shift), encoded.payload).ok());
  }
}

TEST(MessageCodecTest, PayloadOfAnotherLengthIsRefused) {
  const auto resize = [](size_t bytes) {
    return [bytes](FrameHeader&, std::vector<std::byte>&, Payload& payload) {
      payload = Payload::Own(std::make_shared<Buffer>(64), bytes);
      std::ranges::fill(
          std::as_writable_bytes(std::span(const_cast<std::byte*>(payload.parts[0].data()), bytes)),
          std::byte{0});
    };
  };
  EXPECT_TRUE(DecodeChanged(SmallPush(), resize(12)).ok());
  for (const size_t bytes : {0UL, 8UL, 11UL, 13UL, 16UL, 64UL}) {
    const auto back = DecodeChanged(SmallPush(), resize(bytes));
    ASSERT_FALSE(back.ok()) << bytes;
    EXPECT_EQ(back.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(MessageCodecTest, PayloadWhereNoneBelongsIsRefused) {
  const auto back = DecodeChanged(
      StepAck{Incarnation(1), 2},
      [](FrameHeader&, auto&, Payload& payload) { payload = SmallPush().payload; });
  ASSERT_FALSE(back.ok());
  EXPECT_THAT(std::string(back.status().message()), HasSubstr("StepAck: has a payload"));
}

TEST(MessageCodecTest, ChunksWithoutElementsAreRefused) {
  PushRequest push = SmallPush();
  push.chunks[1].element_count = 0;
  push.payload.parts[0] = push.payload.parts[0].first(8);
  EXPECT_FALSE(ParseFrame(Flatten(EncodeMessage(push, 1))).ok());
}

TEST(MessageCodecTest, ElementCountsThatWrapAroundAreRefused) {
  PushRequest push = SmallPush();
  push.chunks.assign(1024, {ChunkKey(1), UINT32_MAX});
  push.chunks.push_back({ChunkKey(2), 1024 + 3});
  EXPECT_FALSE(ParseFrame(Flatten(EncodeMessage(push, 1))).ok());
}

TEST(MessageCodecTest, UnknownEnumValuesAreRefused) {
  const Message messages[] = {
      Make<Hello>([](auto& m) { m.role = static_cast<Role>(3); }),
      Make<Refusal>([](auto& m) { m.code = static_cast<StatusCode>(kStatusCodeCount); }),
      Make<Refusal>([](auto& m) { m.code = StatusCode::kOk; }),
      Make<PushReply>([](auto& m) { m.outcome = static_cast<PushOutcome>(3); }),
      Make<MembershipAck>([](auto& m) {
        m.resolved = {{Incarnation(1), 1, static_cast<PushOutcome>(9)}};
      }),
      Make<LeaseGrant>([](auto& m) { m.kind = static_cast<LeaseKind>(2); }),
      Make<WorkerHeartbeat>([](auto& m) { m.state = static_cast<WorkerState>(4); }),
      Make<ShardSetup>([](auto& m) {
        m.tensors.resize(1);
        m.tensors[0].init = static_cast<InitKind>(3);
      }),
      Make<StatusReply>([](auto& m) { m.status.mode = static_cast<Mode>(255); })};
  for (const Message& message : messages) {
    const auto back = ParseFrame(Flatten(EncodeMessage(message, 1)));
    ASSERT_FALSE(back.ok()) << MessageTypeName(MessageTypeOf(message));
    EXPECT_EQ(back.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(MessageCodecTest, ValuesThatContradictThemselvesAreRefused) {
  const auto shape = [](std::vector<int64_t> dims) {
    return Make<ShardSetup>([&](auto& m) {
      m.tensors.resize(1);
      m.tensors[0].shape = std::move(dims);
    });
  };
  const Message messages[] = {
      shape({INT64_MAX, INT64_MAX}),
      shape({-1}),
      shape({0}),
      Make<JoinReply>([](auto& m) { m.placement.chunks.resize(1); }),
      Make<LeaseGrant>([](auto& m) { m.begin = 2; }),
      Make<StepReport>([](auto& m) { m.steps.resize(1), m.steps[0].begin = 2; })};
  for (const Message& message : messages) {
    const auto back = ParseFrame(Flatten(EncodeMessage(message, 1)));
    EXPECT_FALSE(back.ok()) << MessageTypeName(MessageTypeOf(message));
  }
}

TEST(MessageCodecTest, AnErrorNamesItsPlace) {
  const auto error = [](const Message& message) {
    return std::string(ParseFrame(Flatten(EncodeMessage(message, 1))).status().message());
  };
  ShardSetup setup;
  setup.tensors.resize(2);
  setup.tensors[1].init = static_cast<InitKind>(3);
  EXPECT_EQ(error(setup), "ShardSetup: tensors[1].init has unknown value 3");
  setup.tensors[1] = {};
  setup.tensors[1].shape = {0};
  EXPECT_EQ(
      error(setup), "ShardSetup: tensors[1].shape has a dimension below 1 or too many elements");
  setup.tensors.clear();
  setup.placement.chunks.resize(1);
  EXPECT_EQ(error(setup), "ShardSetup: placement.chunks: an empty chunk or one outside its tensor");
  StatusReply reply;
  reply.status.modes.wanted.mode = static_cast<Mode>(7);
  EXPECT_EQ(error(reply), "StatusReply: status.modes.wanted.mode has unknown value 7");
  LeaseGrant grant;
  grant.begin = 2;
  EXPECT_EQ(error(grant), "LeaseGrant: the lease ends before it begins");
}

TEST(MessageCodecTest, TextOverItsLimitIsRefused) {
  const auto join_reply = [](size_t config_bytes) {
    JoinReply reply;
    reply.config_json.assign(config_bytes, 'x');
    return ParseFrame(Flatten(EncodeMessage(reply, 1))).ok();
  };
  EXPECT_TRUE(join_reply(kConfigBytesMax));
  EXPECT_FALSE(join_reply(kConfigBytesMax + 1));
}

TEST(MessageCodecTest, EveryTypeNumberReadsEveryOtherTypesBytesSafely) {
  for (size_t i = 0; i < kMessageCount; ++i) {
    for (uint16_t type = 1; type <= kMessageTypeMax; ++type) {
      DecodeChanged(
          SampleMessage(i),
          [&](FrameHeader& header, auto&, Payload& payload) {
            header.type = type;
            payload = {};
          })
          .status()
          .Ignore("some pairs fit by chance; none may touch memory it should not");
    }
  }
}

TEST(MessageCodecTest, APushOfNothingHasNoPayloadAndNothingElseIsNothing) {
  PushRequest push = SmallPush();
  push.encoding = {ps::codec::EncodingKind::kNothing};
  EXPECT_FALSE(ParseFrame(Flatten(EncodeMessage(push, 1))).ok()) << "it has one";
  push.payload = Payload();
  const auto back = ParseFrame(Flatten(EncodeMessage(push, 1)));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(SameMessage(Message(push), *back));
  PullReply reply;
  reply.chunks = {{MakeChunkKey(0, 0), 1, 3}};
  reply.encoding = {ps::codec::EncodingKind::kNothing};
  EXPECT_EQ(
      ParseFrame(Flatten(EncodeMessage(reply, 1))).status().message(),
      "PullReply: values come as nothing, which pushes alone may");
}

TEST(MessageCodecTest, TheEncodingOfAPushSaysHowLongItsPayloadIs) {
  PushRequest push = SmallPush();  // of 3 values
  push.encoding = {ps::codec::EncodingKind::kBf16};
  for (size_t bytes = 0; bytes <= 12; ++bytes) {
    push.payload = Payload::Own(std::make_shared<Buffer>(16), bytes);
    std::ranges::fill(
        std::as_writable_bytes(
            std::span(const_cast<std::byte*>(push.payload.bytes().data()), bytes)),
        std::byte{1});
    const auto back = ParseFrame(Flatten(EncodeMessage(push, 1)));
    ASSERT_EQ(back.ok(), bytes == 6) << bytes << " " << back.status();
    EXPECT_TRUE(!back.ok() || SameMessage(Message(push), *back));
  }
  const auto error = [&](Encoding encoding) {
    push.encoding = encoding;
    return std::string(ParseFrame(Flatten(EncodeMessage(push, 1))).status().message());
  };
  EXPECT_EQ(
      error({static_cast<ps::codec::EncodingKind>(6)}),
      "PushRequest: encoding.kind has unknown value 6");
  for (const Encoding& encoding :
       {Encoding{ps::codec::EncodingKind::kTopk, 0},
        Encoding{ps::codec::EncodingKind::kTopk, Encoding::kShareMax + 1},
        Encoding{ps::codec::EncodingKind::kInt8, 1}}) {
    EXPECT_EQ(error(encoding), "PushRequest: encoding.share is none that the kind has");
  }
}

}  // namespace
}  // namespace ps::proto
