#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <variant>

#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/worker_program_fixture.h"

namespace ps::worker::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

class WorkerOnDeviceTest : public WorkerProgramTest {
 protected:
  ~WorkerOnDeviceTest() override {
    coordinator_.reset();
    shard_.reset();
    if (thread_.joinable()) {
      thread_.join();
    }
    cuda_emulation::SetDeviceMemory(0);
    cuda_emulation::SetCublas(true);
    cuda_emulation::LoseDeviceAfter(-1);
    cuda_emulation::TakeFailure();
  }

  /// The worker's next message to the shard that is a T, with its request and its peer.
  template <typename T>
  net::Event NextAtShard() {
    while (true) {
      net::Event event = shard_->Next();
      if (std::holds_alternative<T>(event.message) || HasFatalFailure()) {
        return event;
      }
    }
  }

  /// All samples, as steps of `minibatch`.
  void Grant(proto::PeerId coordinator, uint64_t incarnation, uint32_t minibatch) {
    proto::LeaseGrant grant;
    grant.incarnation = Incarnation(incarnation);
    grant.lease = LeaseId(1);
    grant.end = 20;
    grant.minibatch = minibatch;
    coordinator_->Send(coordinator, 0, grant);
  }

  /// What became of the worker.
  Status Outcome() {
    std::future<Status> outcome = outcome_.get_future();
    if (outcome.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
      return Status::DeadlineExceeded("the worker is still there");
    }
    thread_.join();
    outcome_ = {};
    return outcome.get();
  }

  /// Both tensors, all of their values the same.
  void AnswerPull(const net::Event& pull, Version version) {
    constexpr size_t kElements = 18 + 3;
    auto buffer = std::make_shared<Buffer>(kElements * sizeof(float));
    std::fill(buffer->floats().begin(), buffer->floats().end(), 0.01F);
    proto::PullReply reply;
    reply.chunks = {{MakeChunkKey(0, 0), version, 18}, {MakeChunkKey(1, 0), version, 3}};
    reply.chunk_total = 2;
    reply.payload = proto::Payload::Own(std::move(buffer), kElements * sizeof(float));
    shard_->Send(pull.peer, pull.request_id, reply);
  }
};

TEST_F(WorkerOnDeviceTest, ADeviceThatIsLostMidStepMakesTheWorkerLeaveLikeARevokedOne) {
  // Parameters and a sample's bytes have come there, and the step has begun.
  cuda_emulation::LoseDeviceAfter(8);
  const int launches = cuda_emulation::LaunchCount();
  ListenAsCoordinator();
  StartWorker("cuda");
  const proto::PeerId coordinator = LetJoin(1);
  EXPECT_EQ(NextOf<proto::LeaseRequest>().device, "cuda:0");
  Grant(coordinator, 1, 0);
  AnswerPull(NextAtShard<proto::PullRequest>(), 0);
  ASSERT_TRUE(sink_.WaitFor("device_lost"));
  const auto goodbye = NextOf<proto::Goodbye>();
  EXPECT_THAT(goodbye.reason, HasSubstr("the CUDA device failed"));
  EXPECT_THAT(goodbye.reason, HasSubstr("this process can't use it any more"));
  EXPECT_EQ(goodbye.stats.steps_dropped, 1U);
  EXPECT_EQ(goodbye.stats.samples, 0U) << "what was computed is not counted: its lease goes back";
  coordinator_->Send(coordinator, 0, proto::GoodbyeReply{Incarnation(1)});
  // Of which main() makes exit code 0.
  const Status status = Outcome();
  EXPECT_EQ(status.code(), StatusCode::kRevoked) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the CUDA device failed"));
  EXPECT_GT(cuda_emulation::LaunchCount(), launches) << "it was in the middle of a step";
}

TEST_F(WorkerOnDeviceTest, AMinibatchThatDoesNotFitEndsTheWorkerThatSaysWhichOneDoes) {
  // A sample takes about 1 KB, and the parameters stay those of the fixture.
  config_.model.layers = Layers(42, Gelu());
  config_.model.layers.front() = Flatten();
  config_.model.layers.back() = Linear(3);
  cuda_emulation::SetCublas(false);  // whose workspace is larger than this device
  cuda_emulation::SetDeviceMemory(20 << 10);
  ListenAsCoordinator();
  StartWorker("cuda");
  proto::PeerId coordinator = LetJoin(1);
  NextOf<proto::LeaseRequest>();
  Grant(coordinator, 1, 20);
  AnswerPull(NextAtShard<proto::PullRequest>(), 0);
  const Status status = Outcome();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  const std::string why(status.message());
  EXPECT_THAT(why, StartsWith("a minibatch of 20 does not fit into the memory of cuda:0"));
  EXPECT_THAT(why, ContainsRegex(", one of [0-9]+ does: "));
  const size_t at = why.find(", one of ");
  ASSERT_NE(at, std::string::npos);
  const auto fits = static_cast<uint32_t>(std::stoul(why.substr(at + 9)));
  EXPECT_GT(fits, 0U);
  EXPECT_LT(fits, 20U);
  net::Event event = coordinator_->Next();
  for (; event.kind == net::Event::Kind::kMessage; event = coordinator_->Next()) {
    EXPECT_FALSE(std::holds_alternative<proto::StepReport>(event.message));
  }
  EXPECT_EQ(event.kind, net::Event::Kind::kClosed);

  StartWorker("cuda");
  coordinator = LetJoin(2);
  NextOf<proto::LeaseRequest>();
  Grant(coordinator, 2, fits);
  AnswerPull(NextAtShard<proto::PullRequest>(), 0);
  const net::Event push = NextAtShard<proto::PushRequest>();
  EXPECT_EQ(std::get<proto::PushRequest>(push.message).samples, fits);
  coordinator_->Send(coordinator, 0, proto::Shutdown{"the test is over"});
  EXPECT_TRUE(Outcome().ok());
}

}  // namespace
}  // namespace ps::worker::test
