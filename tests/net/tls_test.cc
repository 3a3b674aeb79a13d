// Connections that are encrypted, over real sockets.

#include "ps/crypto/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ps/crypto/certificates.h"
#include "ps/crypto/worker_token.h"
#include "tests/net/test_node.h"

namespace ps::net {
namespace {

using crypto::Authority;
using testing::HasSubstr;
using Kind = Event::Kind;

const Authority& Run() {
  static const Authority authority = Authority::Make();
  return authority;
}

EndpointOptions Encrypted(
    const std::string& node, std::string_view role, const Authority& authority = Run()) {
  EndpointOptions options = TestOptions(node);
  auto context = crypto::TlsContext::Make(authority.Issue(node, {role}));
  EXPECT_TRUE(context.ok()) << context.status();
  options.tls = *context;
  return options;
}

EndpointOptions EncryptedServer() {
  return Encrypted("s0", crypto::kServerRole);
}

EndpointOptions EncryptedWorker() {
  return Encrypted("w0", crypto::kWorkerRole);
}

/// Expires at the next full second, which may be now.
std::string CertificateOfASecond() {
  return Run().Issue("s1", {crypto::kServerRole}, {.end = std::chrono::seconds(1)});
}

Status ErrorOf(TestNode* client, const Door& door, const RetryPolicy& retry = PatientPolicy()) {
  const auto peer = client->Connect(door, TestHello("tester"), retry);
  EXPECT_FALSE(peer.ok());
  return peer.status();
}

TEST(TlsConnectionTest, LargeAndSmallFramesPassBothWaysInOrder) {
  TestNode server(EncryptedServer());
  server.EchoEverything();
  TestNode client(EncryptedWorker());
  const proto::PeerId peer = client.MustConnect(server.Listen());
  const auto large = PatternBytes(size_t{3} << 20, 1);
  const auto odd = PatternBytes(16'388, 2);
  constexpr uint64_t kCount = 240;
  const auto push_of = [&](uint64_t i) {
    if (i % 60 == 0) {
      return BorrowedPush(large);
    }
    return i % 7 == 0 ? BorrowedPush(odd) : BorrowedPush({});
  };
  client.Do([&](Endpoint& endpoint) {
    for (uint64_t i = 1; i <= kCount; ++i) {
      endpoint.Send(peer, i, push_of(i));
    }
  });
  for (uint64_t i = 1; i <= kCount; ++i) {
    const Event event = client.Next();
    ASSERT_EQ(event.kind, Kind::kMessage) << event.status;
    ASSERT_EQ(event.request_id, i);
    const auto& echo = std::get<proto::PushRequest>(event.message);
    const auto expected = push_of(i);
    ASSERT_TRUE(std::ranges::equal(echo.payload.bytes(), expected.payload.bytes())) << i;
  }
}

TEST(TlsConnectionTest, WhatWasSentBeforeACloseArrives) {
  TestNode server(EncryptedServer());
  TestNode client(EncryptedWorker());
  const proto::PeerId peer = client.MustConnect(server.Listen());
  EXPECT_EQ(server.Next().kind, Kind::kConnected);
  const auto large = PatternBytes(size_t{5} << 20, 1);
  client.Do([&](Endpoint& endpoint) {
    endpoint.Send(peer, 1, BorrowedPush(large));
    endpoint.Close(peer);
  });
  EXPECT_EQ(server.Next().kind, Kind::kMessage);
  const Event closed = server.Next();
  EXPECT_EQ(closed.kind, Kind::kClosed);
  EXPECT_EQ(closed.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(closed.status.message(), HasSubstr("the peer closed the connection"));
}

TEST(TlsConnectionTest, ACutIsNotTakenForAnEnd) {
  TestNode server(EncryptedServer());
  const uint32_t port = server.Listen();
  {
    TestNode client(EncryptedWorker());
    client.MustConnect(port);
    EXPECT_EQ(server.Next().kind, Kind::kConnected);
  }
  const Event closed = server.Next();
  EXPECT_EQ(closed.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(closed.status.message(), HasSubstr("the connection was cut"));
}

TEST(TlsConnectionTest, APlainClientIsToldWhatIsWrong) {
  TestNode server(EncryptedServer());
  const uint32_t port = server.Listen();
  TestNode client(TestOptions("w0"));
  const Status error = ErrorOf(&client, port);
  EXPECT_EQ(error.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("the connections of this run are encrypted (run.tls)"));
  EXPECT_TRUE(server.HasNoEvent());
}

TEST(TlsConnectionTest, AnEncryptingClientIsToldThatThePortIsPlainAndShowsNoToken) {
  TestNode server(TestOptions("s0"));
  const uint32_t port = server.Listen();
  TestNode client(EncryptedWorker());
  const Status error = ErrorOf(&client, port);
  EXPECT_EQ(error.code(), StatusCode::kUnavailable) << "anybody may say so";
  EXPECT_THAT(error.message(), HasSubstr("connections are not encrypted (run.tls)"));
  EXPECT_TRUE(server.HasNoEvent());
}

TEST(TlsConnectionTest, APeerOfAnotherRunIsRefusedOnBothSides) {
  TestNode server(EncryptedServer());
  const uint32_t port = server.Listen();
  TestNode client(Encrypted("w0", crypto::kWorkerRole, Authority::Make()));
  const Status error = ErrorOf(&client, port);
  EXPECT_EQ(error.code(), StatusCode::kUnavailable) << "the right one may come";
  EXPECT_THAT(error.message(), HasSubstr("the peer's certificate is of another run"));
  EXPECT_THAT(error.message(), HasSubstr("127.0.0.1:"));
  EXPECT_TRUE(server.HasNoEvent());
}

/// The process was started while it was good.
TEST(TlsConnectionTest, ACertificateThatHasExpiredIsRefusedByEitherSideInWords) {
  std::string pem = CertificateOfASecond();
  Result<std::shared_ptr<const crypto::TlsContext>> context = crypto::TlsContext::Make(pem);
  while (!context.ok()) {
    pem = CertificateOfASecond();
    context = crypto::TlsContext::Make(pem);
  }
  EndpointOptions options = TestOptions("s1");
  options.tls = *context;
  TestNode expired(options);
  const uint32_t expired_port = expired.Listen();
  TestNode server(EncryptedServer());
  const uint32_t port = server.Listen();
  TestNode client(EncryptedWorker());
  while (crypto::TlsContext::Make(pem).ok()) {
    ::poll(nullptr, 0, 5);
  }
  const Status of_client = ErrorOf(&expired, port);
  EXPECT_EQ(of_client.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(of_client.message(), HasSubstr("says that this side's certificate has expired"));
  const Status of_server = ErrorOf(&client, expired_port);
  EXPECT_EQ(of_server.code(), StatusCode::kUnavailable);
  EXPECT_THAT(of_server.message(), HasSubstr("the peer's certificate has expired"));
  EXPECT_TRUE(server.HasNoEvent());
  EXPECT_TRUE(expired.HasNoEvent());
}

TEST(TlsConnectionTest, AWorkersCertificateLetsNobodyInAsAServer) {
  TestNode server(EncryptedServer());
  const uint32_t port = server.Listen();
  TestNode client(EncryptedWorker());
  proto::Hello hello = TestHello("impostor");
  hello.role = proto::Role::kShard;
  const auto peer = client.Connect(port, hello);
  EXPECT_EQ(peer.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(peer.status().message(), HasSubstr("lets nobody in as a shard"));
  EXPECT_TRUE(server.HasNoEvent());
}

TEST(TlsConnectionTest, AListenerWithAWorkersCertificateGetsNoToken) {
  TestNode impostor(EncryptedWorker());
  const uint32_t port = impostor.Listen();
  TestNode client(EncryptedWorker());
  EXPECT_THAT(ErrorOf(&client, port).message(), HasSubstr("certificate is of a worker"));
  TestNode server(EncryptedServer());
  const uint32_t server_port = server.Listen();
  RetryPolicy coordinator = PatientPolicy();
  coordinator.peer_roles = {std::string(crypto::kCoordinatorRole)};
  EXPECT_THAT(
      ErrorOf(&client, server_port, coordinator).message(),
      HasSubstr("of a server, and a coordinator should be at this address"));
  EXPECT_TRUE(impostor.HasNoEvent());
  EXPECT_TRUE(server.HasNoEvent());
}

TEST(TlsConnectionTest, GarbageInsteadOfAHandshakeEndsTheConnection) {
  TestNode server(EncryptedServer());
  const uint32_t port = server.Listen();
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("\x16\x03\x01\x40\x00", 5) + std::string(16384, 'x'),
        std::string(1, '\x15')}) {
    RawSocket socket(port);
    socket.Write(std::as_bytes(std::span(garbage)));
    if (garbage.size() > 1) {
      EXPECT_TRUE(socket.ReadsEnd());
    }
  }
  EXPECT_TRUE(server.HasNoEvent());
  TestNode client(EncryptedWorker());
  client.MustConnect(port);
}

TEST(TlsConnectionTest, AHandshakeThatNeverEndsIsGivenUp) {
  EndpointOptions options = EncryptedServer();
  options.handshake_timeout = std::chrono::milliseconds(100);
  options.linger = std::chrono::milliseconds(30);
  options.half_open_max = 1;
  TestNode server(options);
  const uint32_t port = server.Listen();
  const std::string begin("\x16\x03\x01\x02\x00\x01", 6);
  RawSocket silent(port);
  silent.Write(std::as_bytes(std::span(begin)));
  EXPECT_TRUE(silent.ReadsEnd());
  TestNode client(EncryptedWorker());
  RetryPolicy patient = PatientPolicy();
  patient.attempts_max = 1000;
  patient.first = patient.limit = std::chrono::milliseconds(10);
  const auto peer = client.Connect(port, TestHello("tester"), patient);
  EXPECT_TRUE(peer.ok()) << peer.status();
}

TEST(TlsConnectionTest, AFullPortSaysSoToAnEncryptingClient) {
  EndpointOptions options = EncryptedServer();
  options.connections_max = 1;
  TestNode server(options);
  const uint32_t port = server.Listen();
  TestNode first(EncryptedWorker());
  first.MustConnect(port);
  TestNode second(EncryptedWorker());
  const Status error = ErrorOf(&second, port);
  EXPECT_EQ(error.code(), StatusCode::kOverloaded);
  EXPECT_THAT(error.message(), HasSubstr("connections are taken"));
}

/// Each of them has the coordinator's port for a while.
TEST(TlsConnectionTest, WhoeverHoldsThePortEndsNothingBeforeItHasShownTheCertificate) {
  const ReservedPort reserved;
  const uint32_t port = reserved.port();
  TestNode client(EncryptedWorker());
  Attempts attempts(&client, port);
  for (const StatusCode code : {StatusCode::kInvalidArgument, StatusCode::kOverloaded}) {
    const std::string text = "refused as " + std::string(StatusCodeName(code));
    const proto::Refusal refusal{.code = code, .message = text, .retry_after_ms = UINT32_MAX};
    const Stranger plain(port, proto::EncodeMessage(refusal, 0).head);
    attempts.AwaitTrouble(text);
  }
  {
    const Stranger web_server(port, AsBytes("HTTP/1.1 400 Bad Request\r\n\r\n"));
    attempts.AwaitTrouble("the peer does not speak the TLS 1.3 of a run");
  }
  {
    const std::string unknown_ca("\x15\x03\x03\x00\x02\x02\x30", 7);  // an alert, RFC 8446, 6
    const Stranger alerts(port, AsBytes(unknown_ca));
    attempts.AwaitTrouble("the peer says that this side's certificate is of another run");
  }
  {
    TestNode foreign(Encrypted("coordinator", crypto::kCoordinatorRole, Authority::Make()));
    foreign.Do([&](Endpoint& endpoint) { EXPECT_TRUE(endpoint.Listen("127.0.0.1", port).ok()); });
    attempts.AwaitTrouble("certificate is of another run");
  }
  {
    TestNode worker(EncryptedWorker());
    worker.Do([&](Endpoint& endpoint) { EXPECT_TRUE(endpoint.Listen("127.0.0.1", port).ok()); });
    attempts.AwaitTrouble("certificate is of a worker");
  }
  TestNode server(EncryptedServer());
  server.Do([&](Endpoint& endpoint) { EXPECT_TRUE(endpoint.Listen("127.0.0.1", port).ok()); });
  EXPECT_EQ(attempts.Outcome().code(), StatusCode::kOk);
}

TEST(TlsConnectionTest, ARefusalOfAPeerThatHasShownTheCertificateIsFinal) {
  EndpointOptions options = EncryptedServer();
  options.admit = [](const proto::Hello& /*hello*/) {
    return Status::InvalidArgument("worker 3 was replaced");
  };
  TestNode server(options);
  TestNode client(EncryptedWorker());
  RetryPolicy retry = PatientPolicy();
  retry.attempts_max = 1000;
  const Status error = ErrorOf(&client, server.Listen(), retry);
  EXPECT_EQ(error.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("worker 3 was replaced"));
}

TEST(TlsConnectionTest, ASocketFileIsPlainAsBefore) {
  TestNode server(EncryptedServer());
  const Door door = server.Listen(DoorKind::kFile);
  TestNode client(TestOptions("psctl"));
  client.MustConnect(door);
}

TEST(WorkersTokenTest, LetsInAsAWorkerAlone) {
  TestNode server(TestOptions("s0"));
  const uint32_t port = server.Listen();
  TestNode client(TestOptions("w3"));
  proto::Hello hello = TestHello("w3");
  hello.token = crypto::MakeWorkerToken(kTestToken, WorkerId(3));
  EXPECT_TRUE(client.Connect(port, hello).ok());
  EXPECT_EQ(server.Next().hello.token, hello.token);
  hello.role = proto::Role::kShard;
  EXPECT_THAT(client.Connect(port, hello).status().message(), HasSubstr("wrong token"));
  hello.role = proto::Role::kWorker;
  hello.token = crypto::MakeWorkerToken("another run's", WorkerId(3));
  EXPECT_THAT(client.Connect(port, hello).status().message(), HasSubstr("wrong token"));
}

TEST(WorkersTokenTest, TheOwnerOfTheEndpointMayRefuseOne) {
  EndpointOptions options = TestOptions("s0");
  options.admit = [](const proto::Hello& hello) {
    return crypto::SeatOfToken(hello.token) == WorkerId(3)
               ? Status::InvalidArgument("worker 3 was replaced")
               : Status::Ok();
  };
  TestNode server(options);
  const uint32_t port = server.Listen();
  TestNode client(TestOptions("w3"));
  proto::Hello hello = TestHello("w3");
  EXPECT_TRUE(client.Connect(port, hello).ok());
  hello.token = crypto::MakeWorkerToken(kTestToken, WorkerId(3));
  EXPECT_THAT(client.Connect(port, hello).status().message(), HasSubstr("was replaced"));
}

}  // namespace
}  // namespace ps::net
