#include "ps/net/link_thread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/net/test_node.h"

namespace ps::net {
namespace {

/// What a home loop is told, in order.
class Told final : public EndpointHandler {
 public:
  explicit Told(Loop* loop) : loop_(loop) {}

  void OnConnected(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

  void OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) override {
    EXPECT_TRUE(loop_->IsOwner());
    Note(Event::Kind::kMessage, peer);
    events.back().request_id = request_id;
    if (const auto* push = std::get_if<proto::PushRequest>(&message)) {
      payloads.emplace_back(push->payload.bytes().begin(), push->payload.bytes().end());
    }
    StopWhenDone();
  }

  void OnClosed(proto::PeerId peer, const Status& why) override {
    EXPECT_TRUE(loop_->IsOwner());
    Note(Event::Kind::kClosed, peer);
    events.back().status = why;
    StopWhenDone();
  }

  void OnDrained(proto::PeerId peer) override {
    Note(Event::Kind::kDrained, peer);
    StopWhenDone();
  }

  /// Until there are so many events.
  void RunUntil(size_t count) {
    wanted_ = count;
    if (events.size() < wanted_) {
      loop_->Run();
    }
  }

  std::vector<Event> events;
  std::vector<std::vector<std::byte>> payloads;

 private:
  void Note(Event::Kind kind, proto::PeerId peer) {
    events.emplace_back();
    events.back().kind = kind;
    events.back().peer = peer;
  }

  void StopWhenDone() {
    if (wanted_ > 0 && events.size() >= wanted_) {
      loop_->Stop();
    }
  }

  Loop* const loop_;
  size_t wanted_ = 0;
};

/// The test's thread runs the home loop.
class LinkThreadTest : public testing::Test {
 protected:
  LinkThreadTest() {
    link_.emplace(3, &home_, TestOptions("w"), &NullLogger(), &told_);
    port_ = server_.Listen();
  }

  proto::PeerId Connect(uint32_t port) {
    std::optional<Result<proto::PeerId>> outcome;
    link_->Connect(
        "127.0.0.1",
        port,
        TestHello("w"),
        [&](const Result<proto::PeerId>& peer) {
          EXPECT_TRUE(home_.IsOwner());
          outcome = peer;
          home_.Stop();
        },
        PatientPolicy());
    home_.Run();
    EXPECT_TRUE(outcome->ok()) << outcome->status();
    return outcome->ok() ? **outcome : proto::PeerId();
  }

  static proto::PushRequest OwnedPush(size_t size_bytes, uint64_t seed) {
    const std::vector<std::byte> bytes = PatternBytes(size_bytes, seed);
    proto::PushRequest push = BorrowedPush(bytes);
    auto buffer = std::make_shared<Buffer>(size_bytes);
    std::ranges::copy(bytes, buffer->bytes().begin());
    push.payload = proto::Payload::Own(std::move(buffer), size_bytes);
    return push;
  }

  Loop home_;
  Told told_{&home_};
  TestNode server_{TestOptions("s")};
  uint32_t port_ = 0;
  std::optional<LinkThread> link_;
};

TEST_F(LinkThreadTest, MessagesGoThereAndBackInOrder) {
  server_.EchoEverything();
  const proto::PeerId peer = Connect(port_);
  EXPECT_EQ(LinkThread::NumberOf(peer), 3U);
  constexpr uint64_t kCount = 200;
  for (uint64_t i = 1; i <= kCount; ++i) {
    link_->Send(peer, i, OwnedPush(i % 7 == 0 ? 64 << 10 : 400, i));
  }
  told_.RunUntil(kCount);
  ASSERT_EQ(told_.events.size(), kCount);
  for (uint64_t i = 1; i <= kCount; ++i) {
    EXPECT_EQ(told_.events[i - 1].request_id, i);
    EXPECT_EQ(told_.events[i - 1].peer, peer);
    EXPECT_EQ(told_.payloads[i - 1], PatternBytes(i % 7 == 0 ? 64 << 10 : 400, i));
  }
  EXPECT_FALSE(link_->IsBacklogged(peer));
}

TEST_F(LinkThreadTest, AFrameKeepsItsPayloadUntilItHasLeft) {
  const proto::PeerId peer = Connect(port_);
  auto owner = std::make_shared<Buffer>(size_t{1} << 20);
  std::ranges::fill(owner->bytes(), std::byte{7});
  const std::weak_ptr<Buffer> watched = owner;
  proto::PushRequest push = OwnedPush(4, 1);
  push.chunks[0].element_count = (1 << 20) / sizeof(float);
  push.payload = proto::Payload::Own(std::move(owner), size_t{1} << 20);
  link_->Send(peer, 1, std::move(push));
  Event event = server_.Next();  // of the connection
  event = server_.Next();
  const auto& received = std::get<proto::PushRequest>(event.message);
  EXPECT_TRUE(
      std::ranges::all_of(received.payload.bytes(), [](std::byte b) { return b == std::byte{7}; }));
  link_.reset();
  EXPECT_TRUE(watched.expired());
}

TEST_F(LinkThreadTest, WhatIsComingCountsAsBacklog) {
  const proto::PeerId peer = Connect(port_);
  server_.set_on_message([](proto::PeerId, uint64_t, proto::Message&&) {});
  std::promise<void> go_on;
  server_.loop().Post([&] { go_on.get_future().wait(); }).Ignore("the test sees");
  for (uint64_t i = 0; i < 40; ++i) {
    link_->Send(peer, i, OwnedPush(1 << 20, i));
  }
  EXPECT_TRUE(link_->IsBacklogged(peer)) << "more than the kernel takes";
  go_on.set_value();
  told_.RunUntil(1);
  EXPECT_EQ(told_.events[0].kind, Event::Kind::kDrained);
}

TEST_F(LinkThreadTest, ACloseHereAndAnEndThereAreToldOnce) {
  const proto::PeerId one = Connect(port_);
  const proto::PeerId other = Connect(port_);
  EXPECT_NE(one, other);
  link_->Close(one);
  told_.RunUntil(1);
  EXPECT_EQ(told_.events[0].peer, one);
  EXPECT_EQ(told_.events[0].status.code(), StatusCode::kCancelled);
  Event event = server_.Next();
  const proto::PeerId first_there = event.peer;
  while (event.kind != Event::Kind::kConnected || event.peer == first_there) {
    event = server_.Next();
  }
  const proto::PeerId there = event.peer;
  server_.Do([there](Endpoint& endpoint) { endpoint.Close(there); });
  told_.RunUntil(2);
  EXPECT_EQ(told_.events[1].peer, other);
  link_->Send(other, 1, OwnedPush(8, 1));  // to nobody
  EXPECT_FALSE(link_->IsBacklogged(other));
}

TEST_F(LinkThreadTest, AnAttemptThatIsGivenUpConnectsNobody) {
  bool is_called = false;
  const ConnectId attempt = link_->Connect(
      "127.0.0.1",
      port_,
      TestHello("w"),
      [&](const Result<proto::PeerId>& /*peer*/) { is_called = true; },
      PatientPolicy());
  link_->CancelConnect(attempt);
  link_->CancelConnect(attempt);
  const proto::PeerId peer = Connect(port_);
  EXPECT_FALSE(is_called);
  EXPECT_NE(peer, proto::PeerId());
}

TEST_F(LinkThreadTest, CloseAllSaysWhenWhatWasSentHasLeft) {
  const proto::PeerId peer = Connect(port_);
  link_->Send(peer, 1, OwnedPush(1 << 20, 5));
  bool is_done = false;
  link_->CloseAll([&] {
    is_done = true;
    home_.Stop();
  });
  home_.Run();
  EXPECT_TRUE(is_done);
  Event event = server_.Next();
  event = server_.Next();
  EXPECT_EQ(event.kind, Event::Kind::kMessage);
  EXPECT_EQ(event.request_id, 1U);
}

/// A worker's session ends from inside of what it is told.
TEST_F(LinkThreadTest, ItMayGoFromInsideACallback) {
  class Ending final : public EndpointHandler {
   public:
    void OnConnected(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

    void OnMessage(proto::PeerId, uint64_t, proto::Message&&) override {
      ++messages;
      link.reset();
      home->Stop();
    }

    void OnClosed(proto::PeerId /*peer*/, const Status& /*why*/) override { ADD_FAILURE(); }

    Loop* home = nullptr;
    std::optional<LinkThread> link;
    int messages = 0;
  } handler;

  handler.home = &home_;
  server_.EchoEverything();
  handler.link.emplace(1, &home_, TestOptions("w"), &NullLogger(), &handler);
  handler.link->Connect(
      "127.0.0.1",
      port_,
      TestHello("w"),
      [&](const Result<proto::PeerId>& peer) {
        for (uint64_t i = 0; i < 20; ++i) {
          handler.link->Send(*peer, i, OwnedPush(400, i));
        }
      },
      PatientPolicy());
  home_.Run();
  EXPECT_EQ(handler.messages, 1);
}

TEST(CrossLoopTest, EverythingRunsInOrderThoughTheMailboxIsSmall) {
  Loop loop(2);
  CrossLoop cross(&loop);
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    cross.Put([&order, &loop, i] {
      order.push_back(i);
      if (i == 99) {
        loop.Stop();
      }
    });
  }
  loop.Run();
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

TEST(CrossLoopTest, NothingRunsOnceItIsClosed) {
  Loop loop;
  int ran = 0;
  {
    CrossLoop cross(&loop);
    cross.Put([&] {
      ++ran;
      cross.Close();
    });
    cross.Put([&] { ++ran; });
    EXPECT_TRUE(loop.Post([&loop] { loop.Stop(); }).ok());
    loop.Run();
  }
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace ps::net
