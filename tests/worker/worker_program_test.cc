#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "tests/worker/worker_program_fixture.h"

namespace ps::worker::test {
namespace {

using net::Event;

// The coordinator is away when a shard fences the worker: its connection is to be made again, and
// the session is to begin anew. Were both done, the coordinator would hear two incarnations.
TEST_F(WorkerProgramTest, AFencedWorkerConnectsOnceAndKeepsItsDataset) {
  ListenAsCoordinator();
  StartWorker();
  const proto::PeerId first = LetJoin(1);
  LetJoinAgain(first, 1);
  const Event connected = shard_->Next();
  ASSERT_EQ(connected.hello.incarnation, Incarnation(1));
  EXPECT_EQ(connected.hello.node, "w7") << "it is known by the seat that it was given";
  EXPECT_EQ(NextOf<proto::LeaseRequest>().incarnation, Incarnation(1));

  coordinator_->Do([&](net::Endpoint& endpoint) {
    endpoint.StopListening();
    endpoint.Close(first);
  });
  while (coordinator_->Next().kind != Event::Kind::kClosed) {
  }
  ASSERT_TRUE(sink_.WaitFor("coordinator_lost"));
  proto::Refusal fenced;
  fenced.code = StatusCode::kStale;
  shard_->Send(connected.peer, 0, fenced);
  ASSERT_TRUE(sink_.WaitFor("fenced"));
  for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
    std::filesystem::remove(file.path());  // who reads them again fails
  }

  ListenAsCoordinator();
  const proto::PeerId second = LetJoin(2);
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(NextOf<proto::WorkerHeartbeat>().incarnation, Incarnation(2));
  }
  coordinator_->Send(second, 0, proto::Shutdown{"the test is over"});
  const Status status = WaitForOutcome();
  EXPECT_TRUE(status.ok()) << status;
}

/// The two shards of a worker, which answer whatever comes.
class TwoShards {
 public:
  TwoShards(net::TestNode* first, net::TestNode* second) : nodes_{first, second} {}

  /// The first request of this kind to the shard; what comes before is passed over.
  template <typename T>
  Event NextAt(size_t shard) {
    while (true) {
      Event event = nodes_[shard]->Next();
      if (std::holds_alternative<T>(event.message) || testing::Test::HasFailure()) {
        return event;
      }
    }
  }

  void AnswerPull(size_t shard, const Event& request) {
    const uint32_t elements = shard == 0 ? 18 : 3;
    auto buffer = std::make_shared<Buffer>(elements * sizeof(float));
    std::ranges::fill(buffer->floats(), 0.01F * static_cast<float>(++version_));
    proto::PullReply reply;
    reply.chunks = {{MakeChunkKey(static_cast<uint32_t>(shard), 0), version_, elements, 0}};
    reply.chunk_total = 1;
    reply.placement = 1;
    reply.payload = proto::Payload::Own(std::move(buffer), elements * sizeof(float));
    nodes_[shard]->Send(request.peer, request.request_id, reply);
  }

  /// With the pull that it asks for.
  Step AnswerPush(size_t shard) {
    const Event request = NextAt<proto::PushRequest>(shard);
    const auto* push = std::get_if<proto::PushRequest>(&request.message);
    if (push == nullptr) {
      return 0;
    }
    proto::PushReply reply;
    reply.step = push->step;
    reply.placement = 1;
    nodes_[shard]->Send(request.peer, request.request_id, reply);
    if (push->wants_pull) {
      AnswerPull(shard, request);
    }
    return push->step;
  }

 private:
  net::TestNode* const nodes_[2];
  Version version_ = 0;
};

// One of the shards has a thread of its own. The loop that the core is on hears of both.
TEST_F(WorkerProgramTest, ShardsAreSpreadOverThreads) {
  net::TestNode second(net::TestOptions("s1"));
  const uint32_t port = second.Listen();
  TwoShards shards(shard_.get(), &second);
  link_threads_ = 2;
  ListenAsCoordinator();
  StartWorker();
  for (const uint64_t incarnation : {1U, 2U}) {
    const Event connected = coordinator_->Next();
    const Event join = coordinator_->Next();
    ASSERT_TRUE(std::holds_alternative<proto::JoinRequest>(join.message));
    const proto::PeerId peer = connected.peer;
    coordinator_->Send(peer, join.request_id, ReplyOfTwoShards(incarnation, port));
    if (incarnation == 1) {
      static_cast<void>(NextOf<proto::JoinRequest>());  // it has loaded
      coordinator_->Send(peer, 0, ReplyOfTwoShards(incarnation, port));
    }
    EXPECT_EQ(NextOf<proto::LeaseRequest>().incarnation, Incarnation(incarnation));
    proto::LeaseGrant grant;
    grant.incarnation = Incarnation(incarnation);
    grant.lease = LeaseId(1);
    grant.end = 20;
    grant.minibatch = 4;
    coordinator_->Send(peer, 0, grant);
    proto::PeerId second_peer;
    for (const size_t shard : {0U, 1U}) {
      const Event pull = shards.NextAt<proto::PullRequest>(shard);
      shards.AnswerPull(shard, pull);
      second_peer = pull.peer;
    }
    for (Step step = 1; step <= 5; ++step) {
      EXPECT_EQ(shards.AnswerPush(0), step);
      EXPECT_EQ(shards.AnswerPush(1), step);
    }
    uint64_t samples = 0;
    while (samples < 20 && !HasFailure()) {
      for (const proto::StepDone& done : NextOf<proto::StepReport>().steps) {
        samples = std::max(samples, done.end);
      }
    }
    if (incarnation == 2) {
      coordinator_->Send(peer, 0, proto::Shutdown{"the test is over"});
    } else {
      // The session ends with its threads: a shard on one of them fences the worker.
      proto::Refusal fenced;
      fenced.code = StatusCode::kStale;
      second.Send(second_peer, 0, fenced);
      while (coordinator_->Next().kind != Event::Kind::kClosed) {
      }
    }
  }
  const Status status = WaitForOutcome();
  EXPECT_TRUE(status.ok()) << status;
}

/// A data set that is read as soon as the test lets it be.
class SlowLoading {
 public:
  Loader::Make Make() {
    return [this](const proto::JobConfig& config, Loader::Backends backends, LoadProgress* progress)
               -> Result<std::unique_ptr<Trainer>> {
      progress->Expect(100);
      PS_TRY(progress->Advance(34));
      std::unique_lock lock(mutex_);
      while (!is_let_) {
        changed_.wait_for(lock, std::chrono::milliseconds(1));
        PS_TRY(progress->Advance(0));
      }
      PS_TRY(outcome_);
      return Trainer::Make(config, std::move(backends), progress);
    };
  }

  void Let(const Status& outcome = Status::Ok()) {
    const std::lock_guard lock(mutex_);
    is_let_ = true;
    outcome_ = outcome;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_let_ = false;
  Status outcome_;
};

TEST_F(WorkerProgramTest, AWorkerThatLoadsHasHeartbeatsAndSaysHowFarItIs) {
  SlowLoading slow;
  make_trainer_ = slow.Make();
  ListenAsCoordinator();
  StartWorker();
  const proto::PeerId peer = LetJoin(1);
  proto::WorkerHeartbeat beat;
  for (int i = 0; i < 3; ++i) {
    beat = NextOf<proto::WorkerHeartbeat>();
    EXPECT_EQ(beat.incarnation, Incarnation(1));
    EXPECT_EQ(beat.state, proto::WorkerState::kJoining);
  }
  ASSERT_EQ(beat.waits.size(), 1U);
  EXPECT_EQ(beat.waits[0].what, "loading " + folder_.path() + ", 34 %");
  slow.Let();
  LetJoinAgain(peer, 1);
  EXPECT_EQ(NextOf<proto::LeaseRequest>().incarnation, Incarnation(1));
  coordinator_->Send(peer, 0, proto::Shutdown{"the test is over"});
  const Status status = WaitForOutcome();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(WorkerProgramTest, ANoticeEndsAWorkerThatLoads) {
  SlowLoading slow;
  make_trainer_ = slow.Make();
  ListenAsCoordinator();
  StartWorker();
  const proto::PeerId peer = LetJoin(1);
  EXPECT_EQ(NextOf<proto::WorkerHeartbeat>().state, proto::WorkerState::kJoining);
  coordinator_->Send(peer, 0, proto::Drain{"its machine is taken back", 30'000});
  EXPECT_EQ(NextOf<proto::Goodbye>().incarnation, Incarnation(1));
  coordinator_->Send(peer, 0, proto::GoodbyeReply{Incarnation(1)});
  EXPECT_EQ(WaitForOutcome().code(), StatusCode::kRevoked);
}

TEST_F(WorkerProgramTest, WhatIsWrongWithTheDataIsToldWhenItIsFound) {
  SlowLoading slow;
  make_trainer_ = slow.Make();
  ListenAsCoordinator();
  StartWorker();
  const proto::PeerId peer = LetJoin(1);
  EXPECT_EQ(NextOf<proto::WorkerHeartbeat>().incarnation, Incarnation(1));
  slow.Let(Status::Corruption("train.csv: line 7: a bad cell"));
  LetJoinAgain(peer, 1);
  EXPECT_EQ(NextOf<proto::Refusal>().message, "set up the model: train.csv: line 7: a bad cell");
  EXPECT_EQ(WaitForOutcome().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace ps::worker::test
