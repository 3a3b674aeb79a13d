#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/net/test_node.h"

namespace ps::net {
namespace {

using testing::HasSubstr;

using Kind = Event::Kind;

/// The next frame must be a Refusal; its code, or kOk with a failure.
proto::Refusal ReadRefusal(RawSocket& socket) {
  Result<proto::Message> message = socket.Read();
  EXPECT_TRUE(message.ok()) << message.status();
  if (!message.ok() || !std::holds_alternative<proto::Refusal>(message.value())) {
    ADD_FAILURE() << "no refusal came";
    return {StatusCode::kOk, "", 0, 0};
  }
  return std::get<proto::Refusal>(message.value());
}

class HandshakeTest : public DoorTest {
 protected:
  HandshakeTest() : server_(TestOptions("server")), door_(server_.Listen(GetParam())) {}

  TestNode server_;
  Door door_;
};

using HandshakeLimitsTest = DoorTest;

INSTANTIATE_TEST_SUITE_P(
    Doors, HandshakeTest, testing::Values(DoorKind::kPort, DoorKind::kFile), DoorName);
INSTANTIATE_TEST_SUITE_P(
    Doors, HandshakeLimitsTest, testing::Values(DoorKind::kPort, DoorKind::kFile), DoorName);

TEST_P(HandshakeTest, AHelloWithTheTokenIsAcceptedAndNamed) {
  RawSocket socket(door_);
  socket.WriteMessage(TestHello("w3"), 7);
  const Result<proto::Message> reply = socket.Read();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(std::get<proto::HelloReply>(reply.value()).node, "server");
  const Event event = server_.Next();
  EXPECT_EQ(event.kind, Kind::kConnected);
  EXPECT_EQ(event.hello.node, "w3");
  EXPECT_EQ(event.hello.role, proto::Role::kWorker);
}

TEST(HandshakeTokenTest, AWrongOneIsRefusedAndTheCoreNeverHears) {
  TestNode server(TestOptions("server"));
  const uint32_t port = server.Listen();
  for (const std::string token : {"", "the run's secreT", "the run's secret2", "the run's secre"}) {
    RawSocket socket(port);
    proto::Hello hello = TestHello("stranger");
    hello.token = token;
    socket.WriteMessage(hello);
    const proto::Refusal refusal = ReadRefusal(socket);
    EXPECT_EQ(refusal.code, StatusCode::kInvalidArgument);
    EXPECT_EQ(refusal.message.find("secret"), std::string::npos);
    EXPECT_TRUE(socket.ReadsEnd());
  }
  EXPECT_TRUE(server.HasNoEvent());
}

TEST_P(HandshakeTest, AnotherProtocolVersionIsToldBothVersions) {
  proto::EncodedMessage frame = proto::EncodeMessage(TestHello("old"), 1);
  proto::FrameHeader header =
      proto::DecodeFrameHeader(
          std::span<const std::byte>(frame.head).first<proto::kFrameHeaderBytes>(), {})
          .value();
  header.version = 77;
  proto::EncodeFrameHeader(header, std::span(frame.head).first<proto::kFrameHeaderBytes>());
  RawSocket socket(door_);
  socket.Write(frame.head);
  const proto::Refusal refusal = ReadRefusal(socket);
  EXPECT_EQ(refusal.code, StatusCode::kUnsupported);
  EXPECT_NE(refusal.message.find("77"), std::string::npos) << refusal.message;
  EXPECT_NE(refusal.message.find(std::to_string(proto::kProtocolVersion)), std::string::npos);
  EXPECT_TRUE(socket.ReadsEnd());
  EXPECT_TRUE(server_.HasNoEvent());
}

TEST_P(HandshakeTest, TheFirstMessageMustBeHello) {
  RawSocket socket(door_);
  socket.WriteMessage(proto::StatusRequest{}, 3);
  EXPECT_EQ(ReadRefusal(socket).code, StatusCode::kInvalidArgument);
  EXPECT_TRUE(socket.ReadsEnd());
}

TEST_P(HandshakeTest, AStrangerCannotMakeItTakeMuchMemory) {
  const auto payload = PatternBytes(4096, 1);
  RawSocket socket(door_);
  socket.WriteMessage(BorrowedPush(payload), 3);
  const proto::Refusal no_payload = ReadRefusal(socket);
  EXPECT_EQ(no_payload.code, StatusCode::kInvalidArgument);
  EXPECT_THAT(no_payload.message, HasSubstr("payload of 4096 bytes is over the limit of 0"));
  RawSocket second(door_);
  proto::Hello hello = TestHello("stranger");
  hello.token.assign(100'000, 'x');
  second.WriteMessage(hello);
  const proto::Refusal too_long = ReadRefusal(second);
  EXPECT_EQ(too_long.code, StatusCode::kInvalidArgument);
  EXPECT_THAT(too_long.message, HasSubstr("bytes is over the limit of 20480"));
}

TEST_P(HandshakeTest, ASecondHelloIsRefused) {
  RawSocket socket(door_);
  socket.WriteMessage(TestHello("w1"));
  ASSERT_TRUE(socket.Read().ok());
  socket.WriteMessage(TestHello("w2"));
  EXPECT_EQ(ReadRefusal(socket).code, StatusCode::kInvalidArgument);
}

TEST_P(HandshakeTest, BadFramesAreAnsweredAndTheConnectionEnds) {
  const auto payload = PatternBytes(64, 1);
  const proto::EncodedMessage good = proto::EncodeMessage(BorrowedPush(payload), 42);

  struct Case {
    const char* name;
    StatusCode code;
    std::vector<std::byte> bytes;
  };

  std::vector<Case> cases;
  cases.push_back({"corrupt header", StatusCode::kCorruption, good.head});
  cases.back().bytes[13] ^= std::byte{1};
  cases.push_back({"corrupt body", StatusCode::kCorruption, good.head});
  cases.back().bytes.insert(cases.back().bytes.end(), payload.begin(), payload.end());
  cases.back().bytes.back() ^= std::byte{1};
  proto::FrameHeader header;
  header.type = proto::kMessageTypeMax + 1;
  cases.push_back({"unknown type", StatusCode::kInvalidArgument, {}});
  cases.back().bytes.resize(proto::kFrameHeaderBytes);
  proto::EncodeFrameHeader(header, std::span(cases.back().bytes).first<proto::kFrameHeaderBytes>());
  header.type = 4;
  header.payload_bytes = uint64_t{1} << 60;
  cases.push_back({"oversize", StatusCode::kInvalidArgument, cases.back().bytes});
  proto::EncodeFrameHeader(header, std::span(cases.back().bytes).first<proto::kFrameHeaderBytes>());
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    RawSocket socket(door_);
    socket.WriteMessage(TestHello("bad"));
    ASSERT_TRUE(socket.Read().ok());
    EXPECT_EQ(server_.Next().kind, Kind::kConnected);
    socket.Write(c.bytes);
    EXPECT_EQ(ReadRefusal(socket).code, c.code);
    EXPECT_TRUE(socket.ReadsEnd());
    const Event event = server_.Next();
    EXPECT_EQ(event.kind, Kind::kClosed);
    EXPECT_EQ(event.status.code(), c.code);
  }
}

TEST_P(HandshakeTest, AFrameCutOffByACloseIsReportedAsSuch) {
  const auto payload = PatternBytes(100'000, 1);
  const proto::EncodedMessage frame = proto::EncodeMessage(BorrowedPush(payload), 42);
  RawSocket socket(door_);
  socket.WriteMessage(TestHello("w1"));
  ASSERT_TRUE(socket.Read().ok());
  EXPECT_EQ(server_.Next().kind, Kind::kConnected);
  socket.Write(frame.head);
  socket.Write(std::span(payload).first(50'000));
  socket.Close();
  const Event event = server_.Next();
  EXPECT_EQ(event.kind, Kind::kClosed);
  EXPECT_EQ(event.status.code(), StatusCode::kUnavailable);
  EXPECT_NE(event.status.message().find("within a frame"), std::string::npos);
}

TEST_P(HandshakeLimitsTest, ARoleThatIsNotServedIsRefused) {
  EndpointOptions options = TestOptions("shard 0");
  options.roles = {proto::Role::kWorker};
  options.file_roles = options.roles;
  TestNode server(options);
  RawSocket socket(server.Listen(GetParam()));
  proto::Hello hello = TestHello("psctl");
  hello.role = proto::Role::kControl;
  socket.WriteMessage(hello);
  const proto::Refusal refusal = ReadRefusal(socket);
  EXPECT_EQ(refusal.code, StatusCode::kInvalidArgument);
  EXPECT_NE(refusal.message.find("control"), std::string::npos);
}

TEST_P(HandshakeLimitsTest, SilenceIsEndedByTheDeadline) {
  EndpointOptions options = TestOptions("server");
  options.handshake_timeout = std::chrono::milliseconds(20);
  TestNode server(options);
  RawSocket socket(server.Listen(GetParam()));
  EXPECT_TRUE(socket.ReadsEnd());
  EXPECT_TRUE(server.HasNoEvent());
}

TEST_P(HandshakeLimitsTest, HalfOpenConnectionsHaveALimitThatDoesNotHurtTheOthers) {
  EndpointOptions options = TestOptions("server");
  options.half_open_max = 3;
  options.half_open_patience = kAmple;
  TestNode server(options);
  const Door door = server.Listen(GetParam());
  TestNode client(TestOptions("client"));
  client.MustConnect(door);  // through the handshake: not counted
  std::vector<std::unique_ptr<RawSocket>> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(std::make_unique<RawSocket>(door));
  }
  RawSocket refused(door);
  const proto::Refusal refusal = ReadRefusal(refused);
  EXPECT_EQ(refusal.code, StatusCode::kOverloaded);
  EXPECT_GT(refusal.retry_after_ms, 0U);
  EXPECT_TRUE(refused.ReadsEnd());
  silent[0]->WriteMessage(TestHello("awake"));
  EXPECT_TRUE(silent[0]->Read().ok());
  client.MustConnect(door);
}

TEST_P(HandshakeLimitsTest, ConnectionsThatSayNothingGiveWayToNewcomers) {
  EndpointOptions options = TestOptions("server");
  options.half_open_max = 3;
  options.half_open_patience = Duration::zero();
  TestNode server(options);
  const Door door = server.Listen(GetParam());
  std::vector<std::unique_ptr<RawSocket>> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(std::make_unique<RawSocket>(door));
  }
  TestNode client(TestOptions("client"));
  client.MustConnect(door);
  EXPECT_TRUE(silent[0]->ReadsEnd()) << "the oldest";
  server.Do([](Endpoint& endpoint) { EXPECT_EQ(endpoint.turned_away(), 1U); });
  silent[1]->WriteMessage(TestHello("awake"));
  EXPECT_TRUE(silent[1]->Read().ok());
}

/// It would keep its place until it is tired of reading.
TEST_P(HandshakeLimitsTest, WhoeverWasRefusedKeepsNoPlace) {
  EndpointOptions options = TestOptions("server");
  options.half_open_max = 1;
  options.half_open_patience = kAmple;
  options.linger = kAmple;
  TestNode server(options);
  const Door door = server.Listen(GetParam());
  RawSocket refused(door);
  refused.WriteMessage(proto::StatusRequest{}, 3);
  EXPECT_EQ(ReadRefusal(refused).code, StatusCode::kInvalidArgument);
  TestNode client(TestOptions("client"));
  client.MustConnect(door);
}

TEST_P(HandshakeLimitsTest, ConnectionsHaveALimitAndARetryGetsInOnceOneEnds) {
  EndpointOptions options = TestOptions("server");
  options.connections_max = 2;
  TestNode server(options);
  const Door door = server.Listen(GetParam());
  TestNode client(TestOptions("client"));
  const proto::PeerId first = client.MustConnect(door);
  client.MustConnect(door);
  EXPECT_EQ(client.Connect(door, TestHello("third")).status().code(), StatusCode::kOverloaded);
  client.Do([&](Endpoint& endpoint) { endpoint.Close(first); });
  EXPECT_EQ(client.Next().kind, Kind::kClosed);
  RetryPolicy retry = PatientPolicy();
  retry.attempts_max = 20;
  EXPECT_TRUE(client.Connect(door, TestHello("third"), retry).ok());
}

}  // namespace
}  // namespace ps::net
