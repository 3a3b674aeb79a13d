#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "ps/base/logger.h"
#include "ps/base/random.h"
#include "ps/server/shard_core.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle.h"

namespace ps::sim {

/// A shard's Outbox: now and then a worker takes its time to read a frame of a pull's answer.
class ShardOutbox final : public proto::Outbox {
 public:
  ShardOutbox(
      NodeOutbox out,
      EventQueue* queue,
      uint64_t seed,
      std::function<void(proto::PeerId)> on_drained)
      : out_(out), queue_(queue), random_(seed), on_drained_(std::move(on_drained)) {}

  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override {
    const bool is_answer = std::holds_alternative<proto::PullReply>(message);
    out_.Send(to, request_id, std::move(message));
    if (is_answer && random_.Chance(0.3) && backlogged_.insert(to).second) {
      const auto reading = std::chrono::microseconds(100 + random_.Below(5000));
      queue_->After(reading, [this, to] {
        backlogged_.erase(to);
        on_drained_(to);
      });
    }
  }

  void Close(proto::PeerId peer) override { out_.Close(peer); }

  bool IsBacklogged(proto::PeerId peer) const override { return backlogged_.contains(peer); }

 private:
  NodeOutbox out_;
  EventQueue* const queue_;
  Random random_;
  const std::function<void(proto::PeerId)> on_drained_;
  std::set<proto::PeerId> backlogged_;
};

/// Of a round's update, in bytes of gradients: few enough that most rounds take several.
inline constexpr uint64_t kSimulatedSliceBytes = 2 << 10;

/// A simulated shard: the production core.
class ShardNode final : public Node, public ShardView {
 public:
  /// `after_work` is called when the core has sent what a worker had no room for, or has gone on
  /// with its work.
  ShardNode(
      ShardId shard,
      const server::ShardSettings& settings,
      uint64_t seed,
      EventQueue* queue,
      Network* network,
      LogSink* sink,
      std::function<void()> after_work)
      : queue_(queue),
        network_(network),
        random_(seed + 1),
        after_work_(std::move(after_work)),
        log_("s" + std::to_string(shard.value), queue, sink),
        node_(network->AddNode(this)),
        out_(
            NodeOutbox(network, node_),
            queue,
            seed,
            [this](proto::PeerId peer) {
              core_.OnDrained(peer, &out_);
              after_work_();
            }),
        pid_(100 + shard.value),
        core_(
            shard,
            "shard",
            1,
            pid_,
            [settings](const std::string&) { return settings; },
            nullptr,
            &log_) {}

  void Start(int coordinator_node) {
    network_->Connect(
        node_,
        coordinator_node,
        {proto::Role::kShard, "token", "s", Incarnation()},
        [this, coordinator_node](proto::PeerId peer) {
          coordinator_node_ = coordinator_node;
          coordinator_ = peer;
          core_.OnCoordinatorConnected(peer, queue_->Now(), &out_);
        });
  }

  void Tick() { core_.OnTick(queue_->Now(), &out_); }

  int node() const { return node_; }

  int64_t pid() const { return pid_; }

  bool is_shut_down() const { return core_.is_shut_down(); }

  void OnAccepted(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

  void OnMessage(proto::PeerId from, uint64_t request_id, proto::Message message) override {
    const bool was_between = core_.HasWork();
    core_.OnMessage(from, request_id, std::move(message), queue_->Now(), &out_);
    is_cut_off_ = is_cut_off_ || (was_between && core_.is_shut_down());
    ContinueLater();
  }

  void OnClosed(proto::PeerId peer) override {
    core_.OnPeerClosed(peer, queue_->Now(), &out_);
    if (peer == coordinator_ && !core_.is_shut_down()) {
      Start(coordinator_node_);
    }
  }

  Version VersionOf(ChunkKey key) const override { return core_.VersionOf(key); }

  std::span<const float> ValuesOf(ChunkKey key) const override { return core_.ValuesOf(key); }

  bool IsBetweenVersions() const override {
    return core_.HasWork() || is_cut_off_ || !core_.is_set_up();
  }

 private:
  /// A slice of a round's update takes its time, and messages come in meanwhile.
  void ContinueLater() {
    if (!core_.HasWork() || is_continuing_) {
      return;
    }
    is_continuing_ = true;
    queue_->After(std::chrono::microseconds(100 + random_.Below(20000)), [this] {
      is_continuing_ = false;
      core_.Continue(&out_);
      after_work_();
      ContinueLater();
    });
  }

  EventQueue* const queue_;
  Network* const network_;
  Random random_;
  const std::function<void()> after_work_;
  bool is_continuing_ = false;
  bool is_cut_off_ = false;  // shut down in the middle of a round's update
  const Logger log_;
  const int node_;
  ShardOutbox out_;
  const int64_t pid_;
  server::ShardCore core_;
  int coordinator_node_ = 0;
  proto::PeerId coordinator_;
};

}  // namespace ps::sim
