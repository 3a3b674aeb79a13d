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

using testing::HasSubstr;

class WorkerOnDeviceTest : public WorkerProgramTest {
 protected:
  ~WorkerOnDeviceTest() override {
    coordinator_.reset();
    shard_.reset();
    if (thread_.joinable()) {
      thread_.join();
    }
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
  coordinator_->Send(
      coordinator,
      0,
      proto::LeaseGrant{
          Incarnation(1),
          LeaseId(1),
          proto::LeaseKind::kTrain,
          0,
          0,
          20,
          0,
          0,
          proto::Mode::kAsync});
  AnswerPull(NextAtShard<proto::PullRequest>(), 0);
  ASSERT_TRUE(sink_.WaitFor("device_lost"));
  const auto goodbye = NextOf<proto::Goodbye>();
  EXPECT_THAT(goodbye.reason, HasSubstr("the CUDA device failed"));
  EXPECT_THAT(goodbye.reason, HasSubstr("this process can't use it any more"));
  EXPECT_EQ(goodbye.stats.steps_dropped, 1U);
  EXPECT_EQ(goodbye.stats.samples, 0U) << "what was computed is not counted: its lease goes back";
  coordinator_->Send(coordinator, 0, proto::GoodbyeReply{Incarnation(1)});
  std::future<Status> outcome = outcome_.get_future();
  ASSERT_EQ(outcome.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  // Of which main() makes exit code 0.
  const Status status = outcome.get();
  EXPECT_EQ(status.code(), StatusCode::kRevoked) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the CUDA device failed"));
  EXPECT_GT(cuda_emulation::LaunchCount(), launches) << "it was in the middle of a step";
}

}  // namespace
}  // namespace ps::worker::test
