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

using cuda_emulation::Issue;
using cuda_emulation::IssueKind;
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
      if (std::holds_alternative<T>(event.message) || HasFailure()) {
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
  void AnswerPull(const net::Event& pull) {
    SendChunks(pull, {{MakeChunkKey(0, 0), 0, 18}, {MakeChunkKey(1, 0), 0, 3}});
  }

  /// A frame of the answer, with these of the two tensors.
  void SendChunks(const net::Event& pull, std::vector<proto::PullReply::Chunk> chunks) {
    size_t size_bytes = 0;
    for (const proto::PullReply::Chunk& chunk : chunks) {
      size_bytes += size_t{chunk.element_count} * sizeof(float);
    }
    auto buffer = std::make_shared<Buffer>(size_bytes);
    std::ranges::fill(buffer->floats(), 0.01F);
    proto::PullReply reply;
    reply.chunks = std::move(chunks);
    reply.chunk_total = 2;
    reply.payload = proto::Payload::Own(std::move(buffer), size_bytes);
    shard_->Send(pull.peer, pull.request_id, reply);
  }
};

TEST_F(WorkerOnDeviceTest, ADeviceThatIsLostMidStepMakesTheWorkerLeaveLikeARevokedOne) {
  config_.train.mode = proto::Mode::kBsp;  // nothing is timed first
  // Parameters and a sample's bytes have come there, and the step has begun.
  cuda_emulation::LoseDeviceAfter(8);
  const int launches = cuda_emulation::LaunchCount();
  ListenAsCoordinator();
  StartWorker("cuda");
  const proto::PeerId coordinator = LetJoin(1);
  LetJoinAgain(coordinator, 1);
  EXPECT_EQ(NextOf<proto::LeaseRequest>().device, "cuda:0");
  Grant(coordinator, 1, 0);
  AnswerPull(NextAtShard<proto::PullRequest>());
  ASSERT_TRUE(sink_.WaitFor("device_lost"));
  const auto goodbye = NextOf<proto::Goodbye>();
  EXPECT_THAT(goodbye.reason, HasSubstr("the CUDA device failed"));
  EXPECT_THAT(goodbye.reason, HasSubstr("this process can't use it any more"));
  EXPECT_EQ(goodbye.stats.steps_dropped, 1U);
  EXPECT_EQ(goodbye.stats.samples, 0U) << "what was computed is not counted: its lease goes back";
  coordinator_->Send(coordinator, 0, proto::GoodbyeReply{Incarnation(1)});
  // main() makes exit code 0 of it.
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
  cuda_emulation::SetDeviceMemory(24 << 10);
  ListenAsCoordinator();
  StartWorker("cuda");
  proto::PeerId coordinator = LetJoin(1);
  LetJoinAgain(coordinator, 1);
  NextOf<proto::LeaseRequest>();
  Grant(coordinator, 1, 20);
  AnswerPull(NextAtShard<proto::PullRequest>());
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
  LetJoinAgain(coordinator, 2);
  NextOf<proto::LeaseRequest>();
  Grant(coordinator, 2, fits);
  AnswerPull(NextAtShard<proto::PullRequest>());
  const net::Event push = NextAtShard<proto::PushRequest>();
  EXPECT_EQ(std::get<proto::PushRequest>(push.message).samples, fits);
  coordinator_->Send(coordinator, 0, proto::Shutdown{"the test is over"});
  EXPECT_TRUE(Outcome().ok());
}

TEST_F(WorkerOnDeviceTest, ProductsAreTimedWhereNoRunHasTheSameBitsAnyhow) {
  ListenAsCoordinator();
  uint64_t session = 0;
  for (const proto::Mode mode : {proto::Mode::kBsp, proto::Mode::kAsync}) {
    config_.train.mode = mode;
    ++session;
    StartWorker("cuda");
    const proto::PeerId coordinator = LetJoin(session);
    LetJoinAgain(coordinator, session);
    NextOf<proto::LeaseRequest>();
    const bool is_timed = sink_.Text().find("cuBLASLt, timed") != std::string::npos;
    EXPECT_EQ(is_timed, mode == proto::Mode::kAsync);
    coordinator_->Send(coordinator, 0, proto::Shutdown{"the test is over"});
    EXPECT_TRUE(Outcome().ok());
    while (coordinator_->Next().kind != net::Event::Kind::kClosed) {
    }
  }
}

TEST_F(WorkerOnDeviceTest, ParametersGoToTheDeviceWhileOthersStillArrive) {
  ListenAsCoordinator();
  StartWorker("cuda");
  const proto::PeerId coordinator = LetJoin(1);
  LetJoinAgain(coordinator, 1);
  NextOf<proto::LeaseRequest>();
  const auto place_of = [](const std::vector<Issue>& issues, uint64_t size_bytes) {
    const auto at = std::ranges::find_if(issues, [=](const Issue& issue) {
      return issue.kind == IssueKind::kUpload && issue.size_bytes == size_bytes;
    });
    return at - issues.begin();
  };
  const auto kernel_of = [](const std::vector<Issue>& issues) {
    return std::ranges::find(issues, IssueKind::kKernel, &Issue::kind) - issues.begin();
  };
  cuda_emulation::IssueLog log;
  Grant(coordinator, 1, 4);
  const net::Event pull = NextAtShard<proto::PullRequest>();
  SendChunks(pull, {{MakeChunkKey(0, 0), 0, 18}});
  std::vector<Issue> issues = log.Await(IssueKind::kUpload, 18 * sizeof(float));
  EXPECT_LT(place_of(issues, 18 * sizeof(float)), std::ssize(issues)) << "the other tensor is away";
  EXPECT_EQ(kernel_of(issues), std::ssize(issues)) << "no step without all of its parameters";
  SendChunks(pull, {{MakeChunkKey(1, 0), 0, 3}});
  NextAtShard<proto::PushRequest>();
  issues = log.Take();
  EXPECT_LT(place_of(issues, 3 * sizeof(float)), kernel_of(issues));
  EXPECT_LT(kernel_of(issues), std::ssize(issues));
  coordinator_->Send(coordinator, 0, proto::Shutdown{"the test is over"});
  EXPECT_TRUE(Outcome().ok());
}

}  // namespace
}  // namespace ps::worker::test
