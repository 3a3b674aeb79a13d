// What error feedback holds back and the last push of a worker that leaves, with a worker's
// threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "ps/proto/exchange.h"
#include "tests/worker/worker_program_fixture.h"

namespace ps::worker::test {
namespace {

/// Elements of each tensor, and of both: one chunk each.
constexpr uint32_t kElements[] = {18, 3};
constexpr uint32_t kAllElements = 21;

/// Two steps of a worker that is told to leave: between them if it is to hand over, else later.
class LeavingWorker : public WorkerProgramTest {
 public:
  struct Pushed {
    std::vector<codec::Encoding> encodings;  // by tensor
    std::vector<float> values;               // of all tensors, as a server decodes them
  };

  Pushed first;
  Pushed second;

  void Work(const std::string& push, uint32_t local_steps) {
    const bool hands_over = push != "f32";
    config_.exchange.push = push;
    config_.train.local_steps = local_steps;
    config_.train.overlap = false;
    ListenAsCoordinator();
    StartWorker();
    const proto::PeerId peer = LetJoin(1);
    LetJoinAgain(peer, 1);
    shard_peer_ = shard_->Next().peer;
    Grant(peer);
    AnswerPull();
    first = NextPush(1);
    if (hands_over) {
      // It hands over if it knows how long a push takes, which the shard's answer tells: that comes
      // by another connection than the notice.
      WaitForReport(1);
      Drain(peer);
    }
    AnswerFusedPull();
    second = NextPush(2);
    if (!hands_over) {
      Drain(peer);
    }
    WaitForReport(2);
    coordinator_->Send(peer, 0, proto::StepAck{Incarnation(1), 2});
    EXPECT_EQ(NextOf<proto::Goodbye>().incarnation, Incarnation(1));
    coordinator_->Send(peer, 0, proto::GoodbyeReply{Incarnation(1)});
    EXPECT_EQ(WaitForOutcome().code(), StatusCode::kRevoked);
  }

 private:
  void TestBody() override {}

  void WaitForReport(Step step) {
    while (!HasFailure()) {
      const proto::StepReport report = NextOf<proto::StepReport>();
      if (!report.steps.empty() && report.steps.back().step == step) {
        return;
      }
    }
  }

  void Drain(proto::PeerId peer) {
    coordinator_->Send(peer, 0, proto::Drain{"scaled down", 60'000});
    EXPECT_TRUE(sink_.WaitFor("notice"));
  }

  /// Of two steps.
  void Grant(proto::PeerId peer) {
    proto::LeaseGrant grant;
    grant.incarnation = Incarnation(1);
    grant.lease = LeaseId(1);
    grant.minibatch = 2;
    grant.local_steps = config_.train.local_steps;
    grant.end = 2 * grant.step_samples();
    grant.settings = proto::StepSettingsOf(config_);
    coordinator_->Send(peer, 0, grant);
  }

  template <typename T>
  net::Event NextToShard() {
    while (true) {
      net::Event event = shard_->Next();
      if (event.kind != net::Event::Kind::kMessage || std::holds_alternative<T>(event.message)) {
        return event;
      }
    }
  }

  void AnswerPull() { SendValues(NextToShard<proto::PullRequest>().request_id); }

  void AnswerFusedPull() { SendValues(pull_id_); }

  /// All parameters are 0.
  void SendValues(uint64_t request_id) {
    proto::PullReply reply;
    for (uint32_t tensor = 0; tensor < std::size(kElements); ++tensor) {
      reply.chunks.push_back({MakeChunkKey(tensor, 0), ++version_, kElements[tensor]});
    }
    reply.chunk_total = 2;
    reply.life = 1;
    reply.placement = 1;
    auto buffer = std::make_shared<Buffer>(kAllElements * sizeof(float));
    std::ranges::fill(buffer->floats(), 0.0F);
    const size_t size = buffer->size();
    reply.payload = proto::Payload::Own(std::move(buffer), size);
    shard_->Send(shard_peer_, request_id, reply);
  }

  /// All frames of the step, one or two, each of which is acknowledged.
  Pushed NextPush(Step step) {
    Pushed pushed{std::vector<codec::Encoding>(2), std::vector<float>(kAllElements)};
    std::vector<uint64_t> request_ids;
    for (size_t chunks = 0; chunks < 2;) {
      const net::Event event = NextToShard<proto::PushRequest>();
      if (event.kind != net::Event::Kind::kMessage) {
        ADD_FAILURE() << "the worker has left before step " << step << "\n" << sink_.Text();
        return pushed;
      }
      const auto& push = std::get<proto::PushRequest>(event.message);
      EXPECT_EQ(push.step, step);
      request_ids.push_back(event.request_id);
      pull_id_ = push.wants_pull ? event.request_id : pull_id_;
      std::span<const std::byte> bytes = push.payload.bytes();
      for (const proto::ChunkRef& chunk : push.chunks) {
        const uint32_t tensor = TensorOf(chunk.key);
        const size_t size = push.encoding.SizeOf(chunk.element_count);
        pushed.encodings[tensor] = push.encoding;
        EXPECT_TRUE(codec::Decode(
                        push.encoding,
                        bytes.first(size),
                        std::span(pushed.values)
                            .subspan(tensor == 0 ? 0 : kElements[0], chunk.element_count))
                        .ok());
        bytes = bytes.subspan(size);
        ++chunks;
      }
    }
    for (const uint64_t id : request_ids) {
      shard_->Send(shard_peer_, id, proto::PushReply{step, proto::PushOutcome::kApplied, 0, 1, 1});
    }
    return pushed;
  }

  proto::PeerId shard_peer_;
  uint64_t pull_id_ = 0;
  Version version_ = 0;
};

/// What came of both steps.
std::vector<float> SumOf(const LeavingWorker& worker) {
  std::vector<float> sum = worker.first.values;
  std::ranges::transform(sum, worker.second.values, sum.begin(), std::plus<>());
  return sum;
}

/// With local steps all of a step is encoded at its end, else tensor by tensor.
class LeavingWorkerTest : public testing::TestWithParam<uint32_t> {};

TEST_P(LeavingWorkerTest, TheLastPushBringsAllThatWasHeldBack) {
  LeavingWorker whole;
  whole.Work("f32", GetParam());
  LeavingWorker topk;
  topk.Work("topk:0.01", GetParam());
  for (size_t tensor = 0; tensor < 2; ++tensor) {
    EXPECT_EQ(topk.first.encodings[tensor].ToText(), "topk:0.01");
    EXPECT_EQ(topk.second.encodings[tensor], codec::Encoding());
  }
  EXPECT_NE(topk.first.values, whole.first.values);
  const std::vector<float> expected = SumOf(whole);
  const std::vector<float> sum = SumOf(topk);
  for (size_t i = 0; i < sum.size(); ++i) {
    EXPECT_NEAR(sum[i], expected[i], 1e-6) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(LocalSteps, LeavingWorkerTest, testing::Values(1, 3));

}  // namespace
}  // namespace ps::worker::test
