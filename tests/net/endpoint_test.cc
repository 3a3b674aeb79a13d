#include "ps/net/endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <variant>
#include <vector>

#include "tests/net/test_node.h"

namespace ps::net {
namespace {

using Kind = Event::Kind;

TEST(EndpointTest, EveryPayloadSizeComesBackAsItWasSent) {
  TestNode server(TestOptions("server"));
  server.EchoEverything();
  TestNode client(TestOptions("client"));
  const proto::PeerId peer = client.MustConnect(server.Listen());
  uint64_t request_id = 0;
  for (const size_t size :
       {size_t{0},
        size_t{4},
        size_t{4092},
        size_t{16384},
        size_t{65536},
        size_t{1} << 20,
        (size_t{1} << 20) + 4,
        size_t{8} << 20}) {
    const auto payload = PatternBytes(size, size);
    client.Send(peer, ++request_id, BorrowedPush(payload));
    const Event event = client.Next();
    ASSERT_EQ(event.kind, Kind::kMessage) << event.status;
    EXPECT_EQ(event.peer, peer);
    EXPECT_EQ(event.request_id, request_id);
    const auto& echo = std::get<proto::PushRequest>(event.message);
    EXPECT_TRUE(std::ranges::equal(echo.payload.bytes(), payload)) << size << " bytes";
  }
}

TEST(EndpointTest, ABorrowedPayloadMayChangeOnceSendHasReturned) {
  TestNode server(TestOptions("server"));
  TestNode client(TestOptions("client"));
  const proto::PeerId peer = client.MustConnect(server.Listen());
  EXPECT_EQ(server.Next().kind, Kind::kConnected);
  const auto original = PatternBytes(size_t{8} << 20, 3);
  constexpr uint64_t kCount = 4;  // more than the kernel takes at once
  client.Do([&](Endpoint& endpoint) {
    for (uint64_t i = 1; i <= kCount; ++i) {
      auto payload = original;
      endpoint.Send(peer, i, BorrowedPush(payload));
      std::ranges::fill(payload, std::byte{0xee});
    }
  });
  for (uint64_t i = 1; i <= kCount; ++i) {
    const Event event = server.Next();
    ASSERT_EQ(event.kind, Kind::kMessage) << event.status;
    EXPECT_EQ(event.request_id, i);
    EXPECT_TRUE(
        std::ranges::equal(std::get<proto::PushRequest>(event.message).payload.bytes(), original));
  }
}

TEST(EndpointTest, SmallMessagesKeepTheirOrderAmongLargeOnes) {
  TestNode server(TestOptions("server"));
  TestNode client(TestOptions("client"));
  const proto::PeerId peer = client.MustConnect(server.Listen());
  EXPECT_EQ(server.Next().kind, Kind::kConnected);
  const auto large = PatternBytes(200'000, 1);
  client.Do([&](Endpoint& endpoint) {
    for (uint64_t i = 1; i <= 300; ++i) {
      endpoint.Send(peer, i, i % 50 == 0 ? BorrowedPush(large) : BorrowedPush({}));
    }
  });
  for (uint64_t i = 1; i <= 300; ++i) {
    ASSERT_EQ(server.Next().request_id, i);
  }
}

TEST(EndpointTest, CloseDeliversWhatWasSentBeforeIt) {
  TestNode server(TestOptions("server"));
  TestNode client(TestOptions("client"));
  const proto::PeerId peer = client.MustConnect(server.Listen());
  EXPECT_EQ(server.Next().kind, Kind::kConnected);
  const auto payload = PatternBytes(size_t{8} << 20, 1);
  client.Do([&](Endpoint& endpoint) {
    endpoint.Send(peer, 1, BorrowedPush(payload));
    endpoint.Close(peer);
    EXPECT_EQ(endpoint.connection_count(), 1U);  // the news comes from the loop
    endpoint.Send(peer, 2, BorrowedPush({}));    // dropped
  });
  const Event closed_here = client.Next();
  EXPECT_EQ(closed_here.kind, Kind::kClosed);
  EXPECT_EQ(closed_here.status.code(), StatusCode::kCancelled);
  const Event event = server.Next();
  ASSERT_EQ(event.kind, Kind::kMessage);
  EXPECT_TRUE(
      std::ranges::equal(std::get<proto::PushRequest>(event.message).payload.bytes(), payload));
  const Event closed_there = server.Next();
  EXPECT_EQ(closed_there.kind, Kind::kClosed);
  EXPECT_EQ(closed_there.status.code(), StatusCode::kUnavailable);
  client.Do([&](Endpoint& endpoint) { EXPECT_EQ(endpoint.connection_count(), 0U); });
}

TEST(EndpointTest, CloseAllEndsEveryConnectionAndThenSaysSo) {
  TestNode server(TestOptions("server"));
  TestNode client(TestOptions("client"));
  const uint32_t port = server.Listen();
  for (int i = 0; i < 3; ++i) {
    client.MustConnect(port);
  }
  std::promise<void> done;
  server.Do([&](Endpoint& endpoint) { endpoint.CloseAll([&] { done.set_value(); }); });
  done.get_future().wait();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.Next().kind, Kind::kClosed);
  }
  const Result<proto::PeerId> late = client.Connect(port, TestHello("late"));
  EXPECT_EQ(late.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(server.Connect(port, TestHello("own")).status().code(), StatusCode::kCancelled);
}

TEST(EndpointTest, CloseAfterClosesUnlessTakenBack) {
  TestNode server(TestOptions("server"));
  TestNode client(TestOptions("client"));
  const uint32_t port = server.Listen();
  const proto::PeerId kept = client.MustConnect(port);
  const proto::PeerId closed = client.MustConnect(port);
  client.Do([&](Endpoint& endpoint) {
    endpoint.CloseAfter(kept, std::chrono::milliseconds(1));
    endpoint.CloseAfter(closed, std::chrono::milliseconds(2));
    endpoint.KeepOpen(kept);
  });
  const Event event = client.Next();
  EXPECT_EQ(event.peer, closed);
  EXPECT_EQ(event.status.code(), StatusCode::kDeadlineExceeded);
  client.Do([&](Endpoint& endpoint) { EXPECT_EQ(endpoint.connection_count(), 1U); });
}

TEST(EndpointTest, AVanishedPeerIsReportedOnceAndSendingToItIsHarmless) {
  TestNode server(TestOptions("server"));
  const uint32_t port = server.Listen();
  proto::PeerId peer;
  {
    TestNode client(TestOptions("client"));
    client.MustConnect(port);
    peer = server.Next().peer;
  }
  const auto payload = PatternBytes(size_t{1} << 20, 1);
  server.Do([&](Endpoint& endpoint) {
    for (uint64_t i = 1; i <= 3; ++i) {
      endpoint.Send(peer, i, BorrowedPush(payload));
    }
  });
  const Event event = server.Next();
  EXPECT_EQ(event.kind, Kind::kClosed);
  EXPECT_EQ(event.peer, peer);
  EXPECT_EQ(event.status.code(), StatusCode::kUnavailable);
  server.Send(peer, 9, proto::StopReply{});
  server.Send(proto::PeerId(12345), 9, proto::StopReply{});
  EXPECT_TRUE(server.HasNoEvent());
}

TEST(EndpointTest, ManyConnectionsEchoSideBySide) {
  constexpr int kConnections = 100;
  TestNode server(TestOptions("server"));
  server.EchoEverything();
  TestNode client(TestOptions("client"));
  const uint32_t port = server.Listen();
  std::vector<proto::PeerId> peers;
  for (int i = 0; i < kConnections; ++i) {
    peers.push_back(client.MustConnect(port));
  }
  const auto payload = PatternBytes(20'000, 1);
  client.Do([&](Endpoint& endpoint) {
    for (const proto::PeerId peer : peers) {
      for (uint64_t i = 1; i <= 3; ++i) {
        endpoint.Send(peer, i, BorrowedPush(payload));
      }
    }
  });
  std::map<proto::PeerId, uint64_t> answers;
  for (int i = 0; i < 3 * kConnections; ++i) {
    const Event event = client.Next();
    ASSERT_EQ(event.kind, Kind::kMessage) << event.status;
    EXPECT_EQ(event.request_id, ++answers[event.peer]);
  }
}

TEST(EndpointTest, ASmallAnswerWaitsForTheEndOfItsBatchUnlessItIsFlushed) {
  TestNode server(TestOptions("server"));
  TestNode client(TestOptions("client"));
  const proto::PeerId peer = client.MustConnect(server.Listen());
  Endpoint* endpoint = nullptr;
  server.Do([&](Endpoint& e) { endpoint = &e; });
  uint64_t queued_bytes = 0;
  uint64_t left_bytes = 1;
  server.set_on_message([&](proto::PeerId from, uint64_t request_id, proto::Message&&) {
    endpoint->Send(from, request_id, proto::StopReply{});
    queued_bytes = endpoint->QueuedBytes(from);
    endpoint->Flush(from);
    left_bytes = endpoint->QueuedBytes(from);
    endpoint->Send(from, request_id + 1, proto::StopReply{});
    endpoint->Flush(proto::PeerId(9999));  // nobody
  });
  client.Send(peer, 1, proto::StopRequest{});
  EXPECT_EQ(client.Next().request_id, 1U);
  EXPECT_EQ(client.Next().request_id, 2U) << "what comes after a flush leaves too";
  server.Do([&](Endpoint&) {
    EXPECT_GT(queued_bytes, 0U);
    EXPECT_EQ(left_bytes, 0U);
  });
}

TEST(EndpointTest, TrafficIsCountedTheSameOnBothSides) {
  TestNode server(TestOptions("server"));
  TestNode client(TestOptions("client"));
  const proto::PeerId peer = client.MustConnect(server.Listen());
  const Event connected = server.Next();
  EXPECT_EQ(connected.hello.node, "tester");
  const auto payload = PatternBytes(100'000, 1);
  client.Send(peer, 1, BorrowedPush(payload));
  EXPECT_EQ(server.Next().kind, Kind::kMessage);
  Traffic out;
  Traffic in;
  client.Do([&](Endpoint& endpoint) {
    out = endpoint.TrafficOf(peer);
    EXPECT_EQ(endpoint.NodeOf(peer), "server");
    EXPECT_EQ(endpoint.TotalTraffic().bytes_out, out.bytes_out);
  });
  server.Do([&](Endpoint& endpoint) {
    in = endpoint.TrafficOf(connected.peer);
    EXPECT_EQ(endpoint.NodeOf(connected.peer), "tester");
  });
  EXPECT_EQ(out.frames_out, 2U);  // Hello and the push
  EXPECT_EQ(out.frames_out, in.frames_in);
  EXPECT_EQ(out.bytes_out, in.bytes_in);
  EXPECT_GT(out.bytes_out, payload.size());
  EXPECT_EQ(out.frames_in, in.frames_out);
  EXPECT_EQ(out.bytes_in, in.bytes_out);
}

TEST(EndpointTest, AHandlerMayCloseThePeerWhoseMessageItGets) {
  TestNode server(TestOptions("server"));
  TestNode client(TestOptions("client"));
  const proto::PeerId peer = client.MustConnect(server.Listen());
  EXPECT_EQ(server.Next().kind, Kind::kConnected);
  int seen = 0;
  Endpoint* endpoint_of_server = nullptr;
  server.Do([&](Endpoint& endpoint) { endpoint_of_server = &endpoint; });
  server.set_on_message([&](proto::PeerId from, uint64_t request_id, proto::Message&&) {
    ++seen;
    endpoint_of_server->Send(from, request_id, proto::StopReply{});
    endpoint_of_server->Close(from);
  });
  client.Do([&](Endpoint& endpoint) {
    for (uint64_t i = 1; i <= 5; ++i) {
      endpoint.Send(peer, i, proto::StopRequest{});
    }
  });
  EXPECT_EQ(server.Next().kind, Kind::kClosed);
  EXPECT_EQ(client.Next().kind, Kind::kMessage);  // what was sent before the close
  EXPECT_EQ(client.Next().kind, Kind::kClosed);
  server.Do([&](Endpoint&) { EXPECT_EQ(seen, 1); });
}

}  // namespace
}  // namespace ps::net
