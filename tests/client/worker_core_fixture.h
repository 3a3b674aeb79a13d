#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ps/client/host_tensors.h"
#include "ps/client/worker_core.h"
#include "tests/client/recording_outbox.h"

namespace ps::client {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A worker's process without arithmetic and sockets: keeps what the core asks of it.
class FakeHost final : public WorkerHost {
 public:
  Result<std::optional<proto::Timing>> Load(const proto::JoinReply& /*reply*/) override {
    return loading;
  }

  std::string LoadingText() const override { return "/data, 34 %"; }

  Result<WorkerSettings> Configure(const proto::JoinReply& /*reply*/) override { return settings; }

  void ConnectCoordinator(Incarnation incarnation) override {
    coordinator_connects.push_back(incarnation);
  }

  void ConnectShard(const proto::ShardAddress& address, Incarnation /*incarnation*/) override {
    shard_connects.push_back(address.shard);
  }

  Status Prepare(const ChunkLayout& layout, size_t room) override {
    PS_TRY(prepare_error);
    PS_ASSIGN(tensors, HostTensors::Make(layout, room));
    return Status::Ok();
  }

  Status ChangeEncodings(const ChunkLayout& layout, bool has_feedback) override {
    changes.emplace_back(layout.chunks().front().encoding, has_feedback);
    return Status::Ok();
  }

  void TakeChunk(const PullIntake::Fresh& fresh) override {
    tensors->Take(fresh);
    taken.push_back(fresh.key);
  }

  bool TakesChunksDuringTasks() const override { return takes_during_tasks; }

  void EndStepEarly(Step step) override { ended_early = step; }

  void HandOver(Step step) override { handed_over = step; }

  bool CanHandOver() const override { return can_hand_over; }

  Result<GradientLoan> StartCompute(const ComputeTask& task) override {
    PS_TRY(compute_error);
    tasks.push_back(task);
    if (on_compute) {
      on_compute();
    }
    if (task.kind == proto::LeaseKind::kEvaluate) {
      return GradientLoan();
    }
    PS_ASSIGN(const std::shared_ptr<FlatGradient> gradient, tensors->Lend());
    gradients.push_back(gradient);
    return GradientLoan(gradient);
  }

  float FirstParameter() const { return tensors->parameters()[0]; }

  /// What the newest step is to have found.
  void SetGradient(float value) const {
    std::ranges::fill(gradients.back().lock()->floats(), value);
  }

  /// By the core, or by frames that have been sent.
  bool IsHeld(size_t gradient) const { return gradients[gradient].use_count() > 1; }

  void OnSamplesAhead(const SamplesAhead& next) override { ahead.push_back(next); }

  void Exit(const Status& status) override { exits.push_back(status); }

  std::optional<proto::Timing> loading;  // while data are loaded
  WorkerSettings settings;
  std::vector<std::pair<codec::Encoding, bool>> changes;  // of the first chunk; with feedback
  std::vector<Incarnation> coordinator_connects;
  std::vector<ShardId> shard_connects;
  Step ended_early = 0;
  Step handed_over = 0;
  bool can_hand_over = true;
  bool takes_during_tasks = false;
  std::vector<ComputeTask> tasks;
  std::vector<SamplesAhead> ahead;
  std::optional<HostTensors> tensors;
  std::vector<ChunkKey> taken;
  std::vector<std::weak_ptr<FlatGradient>> gradients;  // of each train task
  Status prepare_error;
  Status compute_error;
  std::vector<Status> exits;
  std::function<void()> on_compute;
};

inline constexpr proto::PeerId kCoordinator(1);
inline constexpr proto::PeerId kShard(2);

/// Tensors of 4 floats, one on one shard as it begins; minibatches of 8.
class WorkerCoreTest : public ::testing::Test {
 protected:
  void Begin(proto::Mode mode, bool overlap) {
    mode_ = mode;
    host_.settings.overlap = overlap;
    host_.settings.timing = proto::Timing::FromMaxDetect(milliseconds(2400));
    host_.settings.timing.orphan = seconds(20);
    host_.settings.tensor_elements.assign(tensor_shards_.size(), 4);
    core_ = std::make_unique<WorkerCore>(
        WorkerCore::Options{AskFor(WorkerId(1)), host_.settings.timing, 1}, &host_, &NullLogger());
    core_->Start(now_);
    core_->OnCoordinatorConnected(kCoordinator, 1, now_, &out_);
    FromCoordinator(Join(Incarnation(4)));
    for (const ShardId shard : Shards()) {
      core_->OnShardConnected(shard, PeerOf(shard), now_, &out_);
    }
  }

  void TickFor(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ += milliseconds(200);
      core_->OnTick(now_, &out_);
    }
  }

  std::set<ShardId> Shards() const { return {tensor_shards_.begin(), tensor_shards_.end()}; }

  static proto::PeerId PeerOf(ShardId shard) { return proto::PeerId(kShard.value + shard.value); }

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
    for (const ShardId shard : Shards()) {
      join.shards.push_back({shard, "127.0.0.1", 1});
    }
    for (uint32_t tensor = 0; tensor < tensor_shards_.size(); ++tensor) {
      join.placement.chunks.push_back({MakeChunkKey(tensor, 0), 4, 0, tensor_shards_[tensor]});
    }
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
    SendValues(ShardId(0), request_id, {0}, version, 1);
  }

  /// A frame of an answer that has `total` chunks in all. Every value is the version.
  void SendValues(
      ShardId shard,
      uint64_t request_id,
      const std::vector<uint32_t>& tensors,
      Version version,
      uint32_t total) {
    auto buffer = std::make_shared<Buffer>(16 * tensors.size());
    std::ranges::fill(buffer->floats(), static_cast<float>(version));
    proto::PullReply reply;
    for (const uint32_t tensor : tensors) {
      reply.chunks.push_back({MakeChunkKey(tensor, 0), version, 4});
    }
    reply.chunk_total = total;
    const size_t size_bytes = buffer->size();
    reply.payload = proto::Payload::Own(std::move(buffer), size_bytes);
    core_->OnMessage(PeerOf(shard), request_id, reply, now_, &out_);
  }

  uint64_t LastToShard(ShardId shard = ShardId(0)) const {
    uint64_t id = 0;
    for (const auto& sent : out_.sent) {
      id = sent.to == PeerOf(shard) ? sent.request_id : id;
    }
    return id;
  }

  void AnswerPush(Step step, proto::PushOutcome outcome = proto::PushOutcome::kApplied) {
    core_->OnMessage(kShard, LastToShard(), proto::PushReply{step, outcome, 0}, now_, &out_);
  }

  void Compute() { core_->OnComputed(host_.tasks.back().session, {2.0, 3, 0.01}, now_, &out_); }

  FakeHost host_;
  proto::Mode mode_ = proto::Mode::kAsync;             // of grants
  std::vector<ShardId> tensor_shards_ = {ShardId(0)};  // where each tensor is
  RecordingOutbox out_;
  std::unique_ptr<WorkerCore> core_;
  TimePoint now_{seconds(100)};
};

}  // namespace ps::client
