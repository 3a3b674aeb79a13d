#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ps/client/worker_core.h"
#include "tests/client/recording_outbox.h"

namespace ps::client {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A worker's process without arithmetic and sockets: keeps what the core asks of it.
class FakeHost final : public WorkerHost {
 public:
  Result<WorkerSettings> Configure(const proto::JoinReply& /*reply*/) override { return settings; }

  void ConnectCoordinator(Incarnation incarnation) override {
    coordinator_connects.push_back(incarnation);
  }

  void ConnectShard(const proto::ShardAddress& address, Incarnation /*incarnation*/) override {
    shard_connects.push_back(address.shard);
  }

  void StartCompute(const ComputeTask& task) override {
    tasks.push_back(task);
    if (on_compute) {
      on_compute();
    }
  }

  void OnSamplesAhead(const SamplesAhead& next) override { ahead.push_back(next); }

  void OnParameters(const ParameterRange& changed) override { changes.push_back(changed); }

  void Exit(const Status& status) override { exits.push_back(status); }

  WorkerSettings settings;
  std::vector<Incarnation> coordinator_connects;
  std::vector<ShardId> shard_connects;
  std::vector<ComputeTask> tasks;
  std::vector<SamplesAhead> ahead;
  std::vector<ParameterRange> changes;
  std::vector<Status> exits;
  std::function<void()> on_compute;
};

inline constexpr proto::PeerId kCoordinator(1);
inline constexpr proto::PeerId kShard(2);

/// One tensor of 4 floats on one shard; minibatches of 8.
class WorkerCoreTest : public ::testing::Test {
 protected:
  void Begin(proto::Mode mode, bool overlap) {
    mode_ = mode;
    host_.settings.overlap = overlap;
    host_.settings.timing = proto::Timing::FromMaxDetect(milliseconds(2400));
    host_.settings.timing.orphan = seconds(20);
    host_.settings.tensor_elements = {4};
    core_ = std::make_unique<WorkerCore>(
        WorkerCore::Options{AskFor(WorkerId(1)), host_.settings.timing, 1}, &host_, &NullLogger());
    core_->Start(now_);
    core_->OnCoordinatorConnected(kCoordinator, 1, now_, &out_);
    FromCoordinator(Join(Incarnation(4)));
    core_->OnShardConnected(ShardId(0), kShard, now_, &out_);
  }

  static proto::JoinRequest AskFor(WorkerId seat) {
    proto::JoinRequest request;
    request.seat = seat;
    request.has_seat = true;
    return request;
  }

  proto::JoinReply Join(Incarnation incarnation) {
    proto::JoinReply join;
    join.worker = WorkerId(1);
    join.incarnation = incarnation;
    join.minibatch = 8;
    join.shards = {{ShardId(0), "127.0.0.1", 1}};
    join.placement.chunks = {{MakeChunkKey(0, 0), 4, 0, ShardId(0)}};
    return join;
  }

  proto::LeaseGrant Grant(uint64_t id, uint64_t begin, uint64_t end, uint64_t round = 0) {
    return {Incarnation(4), LeaseId(id), proto::LeaseKind::kTrain, 0, begin, end, round, 0, mode_};
  }

  void FromCoordinator(proto::Message message) {
    core_->OnMessage(kCoordinator, 0, std::move(message), now_, &out_);
  }

  /// The shard answers the newest pull, or the pull fused to the newest push.
  void AnswerPull(Version version) { AnswerPullOf(LastToShard(), version); }

  void AnswerPullOf(uint64_t request_id, Version version) {
    auto buffer = std::make_shared<Buffer>(16);
    std::fill(buffer->floats().begin(), buffer->floats().end(), static_cast<float>(version));
    proto::PullReply reply;
    reply.chunks = {{MakeChunkKey(0, 0), version, 4}};
    reply.chunk_total = 1;
    reply.payload = proto::Payload::Own(std::move(buffer), 16);
    core_->OnMessage(kShard, request_id, reply, now_, &out_);
  }

  uint64_t LastToShard() const {
    uint64_t id = 0;
    for (const auto& sent : out_.sent) {
      id = sent.to == kShard ? sent.request_id : id;
    }
    return id;
  }

  void AnswerPush(Step step, proto::PushOutcome outcome = proto::PushOutcome::kApplied) {
    core_->OnMessage(kShard, LastToShard(), proto::PushReply{step, outcome, 0}, now_, &out_);
  }

  void Compute() { core_->OnComputed(host_.tasks.back().session, {2.0, 3, 0.01}, now_, &out_); }

  FakeHost host_;
  proto::Mode mode_ = proto::Mode::kAsync;  // of grants
  RecordingOutbox out_;
  std::unique_ptr<WorkerCore> core_;
  TimePoint now_{seconds(100)};
};

}  // namespace ps::client
