#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>

#include "tests/net/test_node.h"

namespace ps::net {
namespace {

using std::chrono::milliseconds;

TEST(ConnectTest, APortInUseIsSaidWithTheAddressAndWhatToDo) {
  TestNode first(TestOptions("first"));
  const uint32_t port = first.Listen();
  TestNode second(TestOptions("second"));
  second.Do([&](Endpoint& endpoint) {
    const Status status = endpoint.Listen("127.0.0.1", port).status();
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    const std::string message(status.message());
    EXPECT_NE(message.find("127.0.0.1:" + std::to_string(port)), std::string::npos) << message;
    EXPECT_NE(message.find("in use"), std::string::npos) << message;
    EXPECT_NE(message.find("choose another port"), std::string::npos) << message;
    EXPECT_TRUE(endpoint.Listen("127.0.0.1", 0).ok()) << "it may try again";
  });
}

TEST(ConnectTest, ANameThatDoesNotResolveIsSaidWithWhatToDo) {
  TestNode node(TestOptions("node"));
  node.Do([](Endpoint& endpoint) {
    const std::string message(endpoint.Listen("no..name", 0).status().message());
    EXPECT_NE(message.find("cannot listen on no..name:0: "), std::string::npos) << message;
    EXPECT_NE(message.find("a name that resolves to one"), std::string::npos) << message;
  });
}

TEST(ConnectTest, AnAddressOfAnotherMachineCannotBeListenedOn) {
  TestNode node(TestOptions("node"));
  node.Do([&](Endpoint& endpoint) {
    // Reserved for documentation, RFC 5737.
    EXPECT_EQ(endpoint.Listen("192.0.2.1", 0).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(endpoint.Listen("127.0.0.1", 70000).status().code(), StatusCode::kInvalidArgument);
  });
}

TEST(ConnectTest, AttemptsAreBoundedAndTheLastReasonNamesTheAddress) {
  const ReservedPort reserved;
  const uint32_t port = reserved.port();
  TestNode client(TestOptions("client"));
  RetryPolicy retry = PatientPolicy();
  retry.attempts_max = 3;
  retry.first = milliseconds(1);
  retry.limit = milliseconds(2);
  const Result<proto::PeerId> result = client.Connect(port, TestHello("w0"), retry);
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  const std::string message(result.status().message());
  EXPECT_NE(message.find("127.0.0.1:" + std::to_string(port)), std::string::npos) << message;
  EXPECT_NE(message.find("attempt 3 of 3"), std::string::npos) << message;
}

TEST(ConnectTest, ALateListenerIsFoundByARetry) {
  const ReservedPort reserved;
  const uint32_t port = reserved.port();
  TestNode client(TestOptions("client"));
  RetryPolicy retry = PatientPolicy();
  retry.attempts_max = 1000;
  retry.first = milliseconds(1);
  retry.limit = milliseconds(20);
  std::promise<Result<proto::PeerId>> done;
  client.Do([&](Endpoint& endpoint) {
    endpoint.Connect(
        "localhost",
        port,
        TestHello("early"),
        [&](Result<proto::PeerId> peer) { done.set_value(std::move(peer)); },
        retry);
  });
  TestNode server(TestOptions("server"));
  server.Do([&](Endpoint& endpoint) { EXPECT_TRUE(endpoint.Listen("127.0.0.1", port).ok()); });
  const Result<proto::PeerId> peer = done.get_future().get();
  EXPECT_TRUE(peer.ok()) << peer.status();
}

TEST(ConnectTest, TheOtherSideSaysItsTerm) {
  EndpointOptions options = TestOptions("coordinator");
  options.term = 7;
  TestNode server(options);
  TestNode client(TestOptions("client"));
  const uint32_t port = server.Listen();
  std::promise<proto::Term> term;
  client.Do([&](Endpoint& endpoint) {
    endpoint.Connect("127.0.0.1", port, TestHello("w0"), [&](const Result<proto::PeerId>& peer) {
      term.set_value(peer.ok() ? endpoint.TermOf(*peer) : 0);
    });
  });
  EXPECT_EQ(term.get_future().get(), 7U);
}

TEST(ConnectTest, TroubleIsReportedWithTheReasonWhileTheAttemptsGoOn) {
  const ReservedPort reserved;
  const uint32_t port = reserved.port();
  TestNode client(TestOptions("client"));
  RetryPolicy retry = PatientPolicy();
  retry.attempts_max = 1'000'000;
  retry.first = milliseconds(1);
  retry.limit = milliseconds(2);
  retry.report_after = milliseconds(20);
  retry.report_every = milliseconds(20);
  std::promise<std::string> told;
  int reports = 0;
  retry.on_trouble = [&](const Status& why) {
    if (++reports == 2) {
      told.set_value(std::string(why.message()));
    }
  };
  std::promise<Result<proto::PeerId>> done;
  client.Do([&](Endpoint& endpoint) {
    endpoint.Connect(
        "127.0.0.1",
        port,
        TestHello("early"),
        [&](Result<proto::PeerId> peer) { done.set_value(std::move(peer)); },
        retry);
  });
  EXPECT_EQ(told.get_future().get(), "Connection refused");
  TestNode server(TestOptions("server"));
  server.Do([&](Endpoint& endpoint) { EXPECT_TRUE(endpoint.Listen("127.0.0.1", port).ok()); });
  const Result<proto::PeerId> peer = done.get_future().get();
  EXPECT_TRUE(peer.ok()) << peer.status();
}

TEST(ConnectTest, AWrongTokenIsNotTriedAgain) {
  TestNode server(TestOptions("server"));
  TestNode client(TestOptions("client"));
  RetryPolicy retry = PatientPolicy();
  retry.attempts_max = 1000;
  proto::Hello hello = TestHello("stranger");
  hello.token = "guess";
  const Result<proto::PeerId> result = client.Connect(server.Listen(), hello, retry);
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(result.status().message().find("attempt"), std::string::npos);
}

/// The port of a coordinator that is started anew may be another program's for a while.
TEST(ConnectTest, AnotherProgramAtThePortIsNoReasonToGiveUp) {
  const ReservedPort reserved;
  const uint32_t port = reserved.port();
  TestNode client(TestOptions("client"));
  Attempts attempts(&client, port);
  {
    const Stranger web_server(
        port, AsBytes("HTTP/1.1 400 Bad Request\r\n\r\n" + std::string(99, ' ')));
    attempts.AwaitTrouble("wrong magic number");
  }
  TestNode server(TestOptions("server"));
  server.Do([&](Endpoint& endpoint) { EXPECT_TRUE(endpoint.Listen("127.0.0.1", port).ok()); });
  EXPECT_EQ(attempts.Outcome().code(), StatusCode::kOk);
}

TEST(ConnectTest, APeerMayNotAskForALongWait) {
  const ReservedPort reserved;
  const uint32_t port = reserved.port();
  TestNode client(TestOptions("client"));
  Attempts attempts(&client, port);
  {
    const Stranger busy(
        port,
        proto::EncodeMessage(
            proto::Refusal{
                .code = StatusCode::kOverloaded, .message = "busy", .retry_after_ms = UINT32_MAX},
            0)
            .head);
    attempts.AwaitTrouble("busy");
  }
  TestNode server(TestOptions("server"));
  server.Do([&](Endpoint& endpoint) { EXPECT_TRUE(endpoint.Listen("127.0.0.1", port).ok()); });
  EXPECT_EQ(attempts.Outcome().code(), StatusCode::kOk);
}

TEST(ConnectTest, APortThatIsNoneIsRefusedFromTheLoop) {
  TestNode client(TestOptions("client"));
  EXPECT_EQ(client.Connect(0, TestHello("w0")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client.Connect(65536, TestHello("w0")).status().code(), StatusCode::kInvalidArgument);
}

TEST(ConnectTest, AListenerThatNeverAnswersIsGivenUp) {
  EndpointOptions options = TestOptions("mute");
  TestNode server(options);
  const uint32_t port = server.Listen();
  std::promise<void> release;
  // The kernel accepts; the loop that should say HelloReply is busy.
  ASSERT_TRUE(server.loop().Post([future = release.get_future().share()] { future.wait(); }).ok());
  TestNode client(TestOptions("client"));
  RetryPolicy retry = PatientPolicy();
  retry.attempts_max = 2;
  retry.first = milliseconds(1);
  retry.reply_timeout = milliseconds(20);
  const Result<proto::PeerId> result = client.Connect(port, TestHello("w0"), retry);
  EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded);
  release.set_value();
}

TEST(ConnectTest, ACancelledAttemptConnectsNobody) {
  const ReservedPort reserved;
  const uint32_t port = reserved.port();
  TestNode client(TestOptions("client"));
  RetryPolicy retry = PatientPolicy();
  retry.attempts_max = 100'000;
  retry.first = milliseconds(1);
  retry.limit = milliseconds(1);
  const auto never = [](const Result<proto::PeerId>&) { ADD_FAILURE() << "it was cancelled"; };
  client.Do([&](Endpoint& endpoint) {
    endpoint.CancelConnect(endpoint.Connect("127.0.0.1", port, TestHello("old"), never, retry));
  });
  TestNode server(TestOptions("server"));
  server.Do([&](Endpoint& endpoint) { EXPECT_TRUE(endpoint.Listen("127.0.0.1", port).ok()); });
  ASSERT_TRUE(client.Connect(port, TestHello("new"), retry).ok());
  EXPECT_EQ(server.Next().hello.node, "new");
  EXPECT_TRUE(server.HasNoEvent());
}

TEST(ConnectTest, AnAttemptThatAwaitsTheReplyIsCancelledToo) {
  TestNode server(TestOptions("server"));
  const uint32_t port = server.Listen();
  std::promise<void> release;
  ASSERT_TRUE(server.loop().Post([future = release.get_future().share()] { future.wait(); }).ok());
  TestNode client(TestOptions("client"));
  const auto never = [](const Result<proto::PeerId>&) { ADD_FAILURE() << "it was cancelled"; };
  ConnectId connect;
  client.Do([&](Endpoint& endpoint) {
    connect = endpoint.Connect("127.0.0.1", port, TestHello("old"), never, PatientPolicy());
  });
  for (bool is_hello_sent = false; !is_hello_sent;) {
    client.Do([&](Endpoint& endpoint) { is_hello_sent = endpoint.TotalTraffic().frames_out == 1; });
  }
  client.Do([&](Endpoint& endpoint) { endpoint.CancelConnect(connect); });
  release.set_value();
  EXPECT_EQ(server.Next().kind, Event::Kind::kConnected) << "the Hello was on its way";
  EXPECT_EQ(server.Next().kind, Event::Kind::kClosed);
  client.MustConnect(port);
  EXPECT_TRUE(client.HasNoEvent());
}

TEST(ConnectTest, AnEndpointMayGoAwayWhileItConnects) {
  const ReservedPort reserved;
  const uint32_t port = reserved.port();
  for (int i = 0; i < 20; ++i) {
    TestNode client(TestOptions("client"));
    RetryPolicy retry = PatientPolicy();
    retry.attempts_max = 1000;
    retry.first = milliseconds(0);
    client.Do([&](Endpoint& endpoint) {
      endpoint.Connect(
          i % 2 == 0 ? "127.0.0.1" : "localhost",
          port,
          TestHello("w0"),
          [](const Result<proto::PeerId>&) { ADD_FAILURE() << "called after the end"; },
          retry);
    });
  }
}

}  // namespace
}  // namespace ps::net
