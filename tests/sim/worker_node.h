#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "ps/base/logger.h"
#include "ps/client/gradient_encoder.h"
#include "ps/client/host_tensors.h"
#include "ps/client/worker_core.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/faults/doubled_residual.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle/oracle.h"

namespace ps::sim {

/// A simulated worker process: the production core, with virtual arithmetic that takes `step_time`
/// and yields the oracle's gradients.
class WorkerNode final : public Node, public client::WorkerHost {
 public:
  struct Options {
    client::WorkerCore::Options core;
    client::WorkerSettings settings;
    Duration step_time = std::chrono::milliseconds(10);
    int coordinator_node = 0;
    bool takes_during_tasks = false;  // new values, as a worker whose device has a second copy
    bool hides_cuts = false;          // Sabotage::kWholeStep
    Duration clock_ahead{};
    bool doubles_residual = false;     // a fault
    bool doubles_hand_over = false;    // likewise
    bool doubles_differences = false;  // likewise
    /// The process ends by itself.
    std::function<void(const Status&)> on_exit;
  };

  WorkerNode(
      Options options, EventQueue* queue, Network* network, Oracle* oracle, const Logger* log);

  void Start();
  /// The process is gone: nothing scheduled by it happens any more.
  void Kill(bool is_silent);
  void Notice(Duration grace);

  /// Its steps take so many times as long from now on.
  void SetSlowdown(int64_t factor) { slowdown_ = factor; }

  int node() const { return node_; }

  bool is_alive() const { return is_alive_; }

  const client::WorkerCore& core() const { return core_; }

  // Node.
  void OnAccepted(proto::PeerId peer, const proto::Hello& hello) override;
  void OnMessage(proto::PeerId from, uint64_t request_id, proto::Message message) override;
  void OnClosed(proto::PeerId peer) override;

  // WorkerHost.
  Result<client::WorkerSettings> Configure(const proto::JoinReply& reply) override;
  void ConnectCoordinator(Incarnation incarnation) override;
  void ConnectShard(const proto::ShardAddress& address, Incarnation incarnation) override;
  void ForgetShard(ShardId shard) override;
  Status Prepare(const client::ChunkLayout& layout, size_t gradients) override;
  Status ChangeEncodings(const client::ChunkLayout& layout, bool has_feedback) override;
  void TakeChunk(const client::PullIntake::Fresh& fresh) override;

  bool TakesChunksDuringTasks() const override { return options_.takes_during_tasks; }

  Result<client::GradientLoan> StartCompute(const client::ComputeTask& task) override;

  void EndStepEarly(Step step) override { ended_early_ = step; }

  void HandOver(Step step) override;

  bool CanHandOver() const override { return true; }

  void Exit(const Status& status) override;

 private:
  void Schedule(Duration delay, std::function<void()> action);
  void Tick();
  void FillTensor(const client::ComputeTask& task, client::FlatGradient* gradient, uint32_t tensor);
  void Encode(const client::ComputeTask& task, client::FlatGradient* gradient, uint32_t tensor);
  uint64_t SamplesDone(const client::ComputeTask& task) const;
  void FinishTensor(const client::ComputeTask& task, client::FlatGradient* gradient, size_t tensor);

  Options options_;
  EventQueue* const queue_;
  const NodeClock clock_;
  Network* const network_;
  Oracle* const oracle_;
  const int node_;
  NodeOutbox out_;
  client::WorkerCore core_;
  std::optional<client::HostTensors> tensors_;  // have the gradient of the task under way
  std::optional<client::GradientEncoder> encoder_;
  std::optional<DoubledResidual> doubled_;
  size_t gradients_ = 0;  // that the core may have at a time
  bool is_alive_ = true;
  int64_t slowdown_ = 1;
  Step ended_early_ = 0;
  Step handed_over_ = 0;
  proto::PeerId coordinator_;
  uint64_t attempt_ = 0;  // to connect to it; the newest counts
  std::map<ShardId, uint64_t> shard_attempts_;
  std::map<proto::PeerId, std::pair<proto::ShardAddress, Incarnation>> shards_;
};

}  // namespace ps::sim
