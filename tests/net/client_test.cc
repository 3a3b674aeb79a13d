#include "ps/net/client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <variant>

#include "tests/net/test_node.h"

namespace ps::net {
namespace {

std::string FileOf(TestNode& server) {
  return server.Listen(DoorKind::kFile).file;
}

TEST(CallTest, ReturnsTheAnswer) {
  TestNode server(TestOptions("server"));
  server.EchoEverything();
  const Result<proto::Message> reply =
      Call(FileOf(server), TestHello("psctl"), proto::StopRequest{true}, kAmple);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(std::get<proto::StopRequest>(reply.value()).is_immediate);
}

TEST(CallTest, ARefusalBecomesItsStatus) {
  TestNode server(TestOptions("server"));
  server.EchoEverything();
  const proto::Refusal refusal = {StatusCode::kStale, "too late", 0, 0};
  const Status status = Call(FileOf(server), TestHello("psctl"), refusal, kAmple).status();
  EXPECT_EQ(status.code(), StatusCode::kStale);
  EXPECT_EQ(status.message(), "too late");
}

TEST(CallTest, SilenceEndsAtTheDeadline) {
  TestNode server(TestOptions("server"));
  const Status status =
      Call(
          FileOf(server), TestHello("psctl"), proto::StatusRequest{}, std::chrono::milliseconds(50))
          .status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("50 ms"), std::string::npos);
}

TEST(CallTest, NobodyThereIsSaidAtOnce) {
  const OpenFolder folder;
  EXPECT_EQ(
      Call(folder / "none.sock", TestHello("psctl"), proto::StatusRequest{}, kAmple)
          .status()
          .code(),
      StatusCode::kUnavailable);
}

TEST(CallTest, AServerThatHangsUpIsNoAnswer) {
  TestNode server(TestOptions("server"));
  Endpoint* endpoint_of_server = nullptr;
  server.Do([&](Endpoint& endpoint) { endpoint_of_server = &endpoint; });
  server.set_on_message(
      [&](proto::PeerId peer, uint64_t, proto::Message&&) { endpoint_of_server->Close(peer); });
  EXPECT_EQ(
      Call(FileOf(server), TestHello("psctl"), proto::StatusRequest{}, kAmple).status().code(),
      StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ps::net
