#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <vector>

#include "tests/net/test_node.h"

namespace ps::net {
namespace {

using Kind = Event::Kind;

constexpr uint64_t kQueueBytes = uint64_t{4} << 20;

/// Says Hello and then reads nothing any more.
class Deaf {
 public:
  Deaf(TestNode& server, DoorKind kind) : Deaf(server, server.Listen(kind)) {}

  Deaf(TestNode& server, const Door& door) : socket_(door) {
    socket_.WriteMessage(TestHello("deaf"));
    EXPECT_TRUE(socket_.Read().ok());
    peer_ = server.Next().peer;
  }

  proto::PeerId peer() const { return peer_; }

  RawSocket& socket() { return socket_; }

 private:
  RawSocket socket_;
  proto::PeerId peer_;
};

using BackpressureTest = DoorTest;

INSTANTIATE_TEST_SUITE_P(
    Doors, BackpressureTest, testing::Values(DoorKind::kPort, DoorKind::kFile), DoorName);

TEST_P(BackpressureTest, APeerThatStopsReadingIsDroppedAtTheLimit) {
  EndpointOptions options = TestOptions("server");
  options.queue_bytes_max = kQueueBytes;
  options.socket_buffer_bytes = 64 << 10;
  TestNode server(options);
  Deaf deaf(server, GetParam());
  const auto payload = PatternBytes(256 << 10, 1);
  server.Do([&](Endpoint& endpoint) {
    uint64_t queued_max = 0;
    for (uint64_t i = 1; i <= 1000; ++i) {
      endpoint.Send(deaf.peer(), i, BorrowedPush(payload));
      queued_max = std::max(queued_max, endpoint.QueuedBytes(deaf.peer()));
    }
    EXPECT_LE(queued_max, kQueueBytes);
    EXPECT_GT(queued_max, kQueueBytes / 2);
    EXPECT_EQ(endpoint.QueuedBytes(deaf.peer()), 0U) << "nothing is kept for who was dropped";
  });
  const Event event = server.Next();
  EXPECT_EQ(event.kind, Kind::kClosed);
  EXPECT_EQ(event.status.code(), StatusCode::kOverloaded);
  EXPECT_TRUE(deaf.socket().ReadsEnd());
}

TEST_P(BackpressureTest, TheNewsOfADropComesFromTheLoopNotFromSend) {
  EndpointOptions options = TestOptions("server");
  options.queue_bytes_max = 1;
  TestNode server(options);
  Deaf deaf(server, GetParam());
  const auto payload = PatternBytes(size_t{32} << 20, 1);
  server.Do([&](Endpoint& endpoint) {
    endpoint.Send(deaf.peer(), 1, BorrowedPush(payload));
    EXPECT_TRUE(server.HasNoEvent());
  });
  EXPECT_EQ(server.Next().status.code(), StatusCode::kOverloaded);
}

TEST_P(BackpressureTest, ASlowReaderGetsEverythingWithinTheLimit) {
  EndpointOptions options = TestOptions("server");
  options.queue_bytes_max = uint64_t{64} << 20;
  TestNode server(options);
  Deaf slow(server, GetParam());
  const auto payload = PatternBytes(1 << 20, 1);
  server.Do([&](Endpoint& endpoint) {
    for (uint64_t i = 1; i <= 40; ++i) {
      endpoint.Send(slow.peer(), i, BorrowedPush(payload));
    }
  });
  for (int i = 1; i <= 40; ++i) {
    const Result<proto::Message> message = slow.socket().Read();
    ASSERT_TRUE(message.ok()) << message.status();
  }
  EXPECT_TRUE(server.HasNoEvent());
}

TEST_P(BackpressureTest, ABackloggedPeerIsDrainedOnceItHasRead) {
  TestNode server(TestOptions("server"));
  server.TellDrained();
  Deaf slow(server, GetParam());
  const auto payload = PatternBytes(size_t{32} << 20, 1);
  server.Do([&](Endpoint& endpoint) {
    EXPECT_FALSE(endpoint.IsBacklogged(slow.peer()));
    endpoint.Send(slow.peer(), 1, BorrowedPush(payload));
    EXPECT_TRUE(endpoint.IsBacklogged(slow.peer()));
    EXPECT_TRUE(server.HasNoEvent()) << "never from inside Send";
  });
  EXPECT_TRUE(slow.socket().Read().ok());
  const Event event = server.Next();
  EXPECT_EQ(event.kind, Kind::kDrained);
  EXPECT_EQ(event.peer, slow.peer());
  server.Do([&](Endpoint& endpoint) {
    EXPECT_FALSE(endpoint.IsBacklogged(slow.peer()));
    EXPECT_EQ(endpoint.QueuedBytes(slow.peer()), 0U);
    endpoint.Send(slow.peer(), 2, proto::StopRequest{});
    EXPECT_FALSE(endpoint.IsBacklogged(slow.peer())) << "small messages leave at once";
  });
  EXPECT_TRUE(slow.socket().Read().ok());
  EXPECT_TRUE(server.HasNoEvent()) << "who was not backlogged is not drained";
}

TEST_P(BackpressureTest, AllPeersTogetherHaveALimitAndWhoHasMostIsDropped) {
  EndpointOptions options = TestOptions("server");
  options.queue_bytes_max = kQueueBytes;
  options.queue_total_bytes_max = 4 * kQueueBytes;
  options.socket_buffer_bytes = 64 << 10;
  TestNode server(options);
  const Door door = server.Listen(GetParam());
  std::vector<std::unique_ptr<Deaf>> deaf;
  for (int i = 0; i < 6; ++i) {
    deaf.push_back(std::make_unique<Deaf>(server, door));
  }
  const auto payload = PatternBytes(256 << 10, 1);
  server.Do([&](Endpoint& endpoint) {
    uint64_t total_max = 0;
    for (int frame = 0; frame < 12; ++frame) {
      for (const auto& peer : deaf) {
        const int frames = peer == deaf[2] && frame < 2 ? 2 : 1;  // it gets a little more
        for (int i = 0; i < frames; ++i) {
          endpoint.Send(peer->peer(), 1, BorrowedPush(payload));
        }
        total_max = std::max(total_max, endpoint.TotalQueuedBytes());
      }
    }
    EXPECT_LE(total_max, 4 * kQueueBytes);
    EXPECT_GT(total_max, 3 * kQueueBytes);
    EXPECT_EQ(endpoint.QueuedBytes(deaf[2]->peer()), 0U);
    EXPECT_GT(endpoint.QueuedBytes(deaf[0]->peer()), kQueueBytes / 2);
  });
  const Event event = server.Next();
  EXPECT_EQ(event.kind, Kind::kClosed);
  EXPECT_EQ(event.peer, deaf[2]->peer());
  EXPECT_EQ(event.status.code(), StatusCode::kOverloaded);
}

TEST_P(BackpressureTest, WhenMuchIsUnsentEverybodyIsBackloggedUntilThereIsRoom) {
  EndpointOptions options = TestOptions("server");
  options.queue_bytes_max = kQueueBytes;
  options.queue_total_bytes_max = 4 * kQueueBytes;
  options.socket_buffer_bytes = 64 << 10;
  TestNode server(options);
  server.TellDrained();
  const Door door = server.Listen(GetParam());
  std::vector<std::unique_ptr<Deaf>> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<Deaf>(server, door));
  }
  Deaf idle(server, door);
  const auto payload = PatternBytes(3 << 20, 1);
  server.Do([&](Endpoint& endpoint) {
    EXPECT_FALSE(endpoint.IsBacklogged(idle.peer()));
    for (const auto& peer : slow) {
      endpoint.Send(peer->peer(), 1, BorrowedPush(payload));
    }
    EXPECT_GT(endpoint.TotalQueuedBytes(), 2 * kQueueBytes);
    EXPECT_TRUE(endpoint.IsBacklogged(idle.peer()));
    EXPECT_TRUE(server.HasNoEvent());
  });
  for (const auto& peer : slow) {
    EXPECT_TRUE(peer->socket().Read().ok());
  }
  bool is_idle_drained = false;
  for (int i = 0; i < 5; ++i) {
    const Event event = server.Next();
    EXPECT_EQ(event.kind, Kind::kDrained);
    is_idle_drained = is_idle_drained || event.peer == idle.peer();
  }
  EXPECT_TRUE(is_idle_drained);
  server.Do([&](Endpoint& endpoint) {
    EXPECT_FALSE(endpoint.IsBacklogged(idle.peer()));
    EXPECT_EQ(endpoint.TotalQueuedBytes(), 0U);
  });
}

TEST_P(BackpressureTest, WhoVanishesOrIsClosedIsNeverDrained) {
  const auto payload = PatternBytes(size_t{32} << 20, 1);
  for (const bool is_closed_here : {false, true}) {
    TestNode server(TestOptions("server"));
    server.TellDrained();
    Deaf deaf(server, GetParam());
    server.Do([&](Endpoint& endpoint) {
      endpoint.Send(deaf.peer(), 1, BorrowedPush(payload));
      if (is_closed_here) {
        endpoint.Close(deaf.peer());
        EXPECT_FALSE(endpoint.IsBacklogged(deaf.peer()));
      }
    });
    if (is_closed_here) {
      EXPECT_TRUE(deaf.socket().Read().ok());
    } else {
      deaf.socket().Close();
    }
    EXPECT_EQ(server.Next().kind, Kind::kClosed);
    EXPECT_TRUE(server.HasNoEvent());
  }
}

TEST_P(BackpressureTest, ACloseDuringASendEndsByItsDeadlineWhenNobodyReads) {
  EndpointOptions options = TestOptions("server");
  options.linger = std::chrono::milliseconds(20);
  TestNode server(options);
  Deaf deaf(server, GetParam());
  const auto payload = PatternBytes(size_t{32} << 20, 1);
  std::promise<void> gone;
  server.Do([&](Endpoint& endpoint) {
    endpoint.Send(deaf.peer(), 1, BorrowedPush(payload));
    endpoint.CloseAll([&] { gone.set_value(); });
  });
  EXPECT_EQ(server.Next().kind, Kind::kClosed);
  gone.get_future().wait();
  EXPECT_TRUE(deaf.socket().ReadsEnd());
}

TEST_P(BackpressureTest, APeerThatVanishesDuringASendIsReported) {
  TestNode server(TestOptions("server"));
  Deaf deaf(server, GetParam());
  const auto payload = PatternBytes(size_t{32} << 20, 1);
  server.Send(deaf.peer(), 1, BorrowedPush(payload));
  deaf.socket().Close();
  const Event event = server.Next();
  EXPECT_EQ(event.kind, Kind::kClosed);
  EXPECT_EQ(event.status.code(), StatusCode::kUnavailable);
}

TEST_P(BackpressureTest, AFloodOfRequestsDoesNotStarveAnotherConnection) {
  TestNode server(TestOptions("server"));
  server.EchoEverything();
  const Door door = server.Listen(GetParam());
  TestNode flood(TestOptions("flood"));
  const proto::PeerId flooding = flood.MustConnect(door);
  TestNode client(TestOptions("client"));
  const proto::PeerId peer = client.MustConnect(door);
  flood.set_on_message([](proto::PeerId, uint64_t, proto::Message&&) {});
  flood.Do([&](Endpoint& endpoint) {
    for (uint64_t i = 1; i <= 20'000; ++i) {
      endpoint.Send(flooding, i, proto::StopRequest{});
    }
  });
  client.Send(peer, 1, proto::StopRequest{});
  EXPECT_EQ(client.Next().kind, Kind::kMessage);
}

}  // namespace
}  // namespace ps::net
