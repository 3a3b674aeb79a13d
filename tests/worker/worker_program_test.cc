#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
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
