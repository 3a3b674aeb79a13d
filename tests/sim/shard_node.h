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
#include "tests/sim/disk.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle/oracle.h"
#include "tests/sim/scenario.h"

namespace ps::sim {

/// A shard's Outbox: now and then a peer takes its time to read what is large.
class ShardOutbox final : public proto::Outbox {
 public:
  ShardOutbox(
      NodeOutbox out,
      EventQueue* queue,
      uint64_t seed,
      std::function<void(proto::PeerId)> on_drained)
      : out_(out), queue_(queue), random_(seed), on_drained_(std::move(on_drained)) {}

  void Send(proto::PeerId to, uint64_t request_id, proto::Message message) override {
    const bool is_large = std::holds_alternative<proto::PullReply>(message) ||
                          std::holds_alternative<proto::ChunkPart>(message);
    out_.Send(to, request_id, std::move(message));
    if (is_large && random_.Chance(0.3) && backlogged_.insert(to).second) {
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
class ShardNode final : public Node, public ShardView, public server::ShardDialer {
 public:
  struct Options {
    ShardId shard;
    server::ShardSettings settings;
    LaunchId launch;
    uint64_t seed = 0;
    checkpoint::Storage* storage = nullptr;  // null: it has no disk
    Duration disk_delay_max{};
    Duration clock_ahead{};
    Sabotage sabotage = Sabotage::kNone;
    /// Called when the core has done something outside the delivery of a message.
    std::function<void()> after_work;
    /// The shard begins to write a checkpoint; its part is on the disk.
    std::function<void(uint64_t checkpoint)> on_snapshot;
    std::function<void(uint64_t checkpoint)> on_part;
  };

  /// All outlive it. Its port is the number of its node.
  ShardNode(const Options& options, EventQueue* queue, Network* network, LogSink* sink)
      : queue_(queue),
        clock_(queue, options.clock_ahead),
        network_(network),
        random_(options.seed + 1),
        after_work_(options.after_work),
        sabotage_(options.sabotage),
        log_("s" + std::to_string(options.shard.value), queue, sink),
        node_(network->AddNode(this)),
        out_(
            NodeOutbox(network, node_),
            queue,
            options.seed,
            [this](proto::PeerId peer) {
              core_.OnDrained(peer, &out_);
              after_work_();
            }),
        disk_queue_(queue, network, node_, options.seed + 2, options.disk_delay_max),
        disk_(
            options.storage,
            options.shard,
            queue,
            &disk_queue_,
            options.sabotage,
            {[this](server::ChunkWritten written) {
               core_.OnChunkWritten(std::move(written), &out_);
               after_work_();
             },
             [this](server::PartWritten written) {
               core_.OnPartWritten(std::move(written), &out_);
               after_work_();
             },
             [this](server::Restored restored) {
               core_.OnRestored(std::move(restored), clock_.Now(), &out_);
               after_work_();
             },
             options.on_snapshot,
             options.on_part}),
        core_(
            // As in containers, where each of them is the first process.
            proto::RegisterShard{
                options.shard, "shard", static_cast<uint32_t>(node_), 1, 0, options.launch},
            [settings = options.settings](const std::string&) { return settings; },
            options.storage == nullptr ? nullptr : &disk_,
            this,
            &log_) {}

  void Start(int coordinator_node) {
    network_->Connect(
        node_,
        coordinator_node,
        {proto::Role::kShard, "token", "s", Incarnation(), core_.term()},
        [this, coordinator_node](proto::PeerId peer) {
          coordinator_node_ = coordinator_node;
          coordinator_ = peer;
          core_.OnCoordinatorConnected(peer, network_->TermOf(peer), clock_.Now(), &out_);
        });
  }

  void Tick() { core_.OnTick(clock_.Now(), &out_); }

  /// Its machine says that it is taken back.
  void Notice(Duration grace) {
    const TimePoint now = clock_.Now();
    core_.OnNotice(now + grace, "the simulated provider", now, &out_);
  }

  int node() const { return node_; }

  /// The process is gone: nothing scheduled by it happens any more.
  void Kill(bool is_silent) {
    network_->Kill(node_, is_silent);
    disk_.Close();
  }

  bool IsShutDown() const override { return core_.is_shut_down(); }

  /// It is shut down, and not because it was told so.
  bool HasFailed() const { return !core_.outcome().ok(); }

  void OnAccepted(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

  void OnMessage(proto::PeerId from, uint64_t request_id, proto::Message message) override {
    if (const auto* const order = std::get_if<proto::GiveChunks>(&message); order != nullptr) {
      gives_ = order->version;
    }
    const bool was_between = core_.HasWork();
    core_.OnMessage(from, request_id, std::move(message), clock_.Now(), &out_);
    is_cut_off_ = is_cut_off_ || (was_between && core_.is_shut_down());
    ContinueLater();
  }

  void OnClosed(proto::PeerId peer) override {
    if (sabotage_ == Sabotage::kTakenWhenClosed && dialed_.contains(peer)) {
      OnMessage(peer, 0, proto::ChunksTaken{gives_, Generation()});
    }
    core_.OnPeerClosed(peer, clock_.Now(), &out_);
    if (peer == coordinator_ && !core_.is_shut_down()) {
      Start(coordinator_node_);
    }
  }

  Version VersionOf(ChunkKey key) const override { return core_.VersionOf(key); }

  std::span<const float> ValuesOf(ChunkKey key) const override { return core_.ValuesOf(key); }

  std::span<const float> SlotOf(ChunkKey key, size_t slot) const override {
    return core_.SlotOf(key, slot);
  }

  uint64_t SamplesDone() const override { return core_.samples_done(); }

  bool HasChunk(ChunkKey key) const override { return core_.HasChunk(key); }

  bool HasStep(Incarnation incarnation, Step step, ChunkKey key) const override {
    return core_.HasStep(incarnation, step, key);
  }

  bool IsSetUp() const override { return core_.is_set_up(); }

  bool IsBetweenVersions() const override { return core_.HasWork() || is_cut_off_; }

 private:
  void Dial(const proto::ShardAddress& to) override {
    const uint64_t attempt = ++attempts_;
    network_->Connect(
        node_,
        static_cast<int>(to.port),
        {proto::Role::kShard, "token", "s", Incarnation(), core_.term()},
        [this, attempt, shard = to.shard](proto::PeerId peer) {
          if (attempt != attempts_) {
            network_->Close(node_, peer);
            return;
          }
          dialed_.insert(peer);
          core_.OnDialed(shard, peer, clock_.Now(), &out_);
          after_work_();
        });
  }

  /// A slice of a round's update takes its time, and messages come in meanwhile.
  void ContinueLater() {
    if (!core_.HasWork() || is_continuing_) {
      return;
    }
    is_continuing_ = true;
    queue_->After(std::chrono::microseconds(100 + random_.Below(20000)), [this] {
      is_continuing_ = false;
      if (!network_->is_alive(node_)) {
        return;
      }
      core_.Continue(&out_);
      after_work_();
      ContinueLater();
    });
  }

  EventQueue* const queue_;
  const NodeClock clock_;
  Network* const network_;
  Random random_;
  const std::function<void()> after_work_;
  const Sabotage sabotage_;
  uint64_t gives_ = 0;              // the placement of the newest order to give chunks
  std::set<proto::PeerId> dialed_;  // to whom it gives some, ever
  bool is_continuing_ = false;
  bool is_cut_off_ = false;  // shut down in the middle of a round's update
  const Logger log_;
  const int node_;
  ShardOutbox out_;
  DiskQueue disk_queue_;
  SimDisk disk_;
  server::ShardCore core_;
  int coordinator_node_ = 0;
  uint64_t attempts_ = 0;  // to reach another shard; the newest counts
  proto::PeerId coordinator_;
};

}  // namespace ps::sim
