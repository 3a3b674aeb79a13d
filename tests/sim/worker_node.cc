#include "tests/sim/worker_node.h"

#include <algorithm>
#include <limits>

namespace ps::sim {

WorkerNode::WorkerNode(
    Options options, EventQueue* queue, Network* network, Oracle* oracle, const Logger* log)
    : options_(std::move(options)),
      queue_(queue),
      clock_(queue, options_.clock_ahead),
      network_(network),
      oracle_(oracle),
      node_(network->AddNode(this)),
      out_(network, node_),
      core_(options_.core, this, log) {}

void WorkerNode::Schedule(Duration delay, std::function<void()> action) {
  queue_->After(delay, [this, action = std::move(action)]() mutable {
    network_->WhenAwake(node_, std::move(action));
  });
}

void WorkerNode::Start() {
  core_.Start(clock_.Now());
  Tick();
}

void WorkerNode::Tick() {
  core_.OnTick(clock_.Now(), &out_);
  Schedule(options_.settings.timing.tick, [this] { Tick(); });
}

void WorkerNode::Kill(bool is_silent) {
  if (is_alive_) {
    is_alive_ = false;
    network_->Kill(node_, is_silent);
  }
}

void WorkerNode::Notice(Duration grace) {
  if (is_alive_) {
    core_.OnNotice(clock_.Now() + grace, "simulated notice", clock_.Now(), &out_);
  }
}

void WorkerNode::OnAccepted(proto::PeerId peer, const proto::Hello& /*hello*/) {
  network_->Close(node_, peer);  // nobody connects to a worker
}

void WorkerNode::OnMessage(proto::PeerId from, uint64_t request_id, proto::Message message) {
  core_.OnMessage(from, request_id, std::move(message), clock_.Now(), &out_);
}

void WorkerNode::OnClosed(proto::PeerId peer) {
  core_.OnPeerClosed(peer, clock_.Now());
  if (peer == coordinator_) {
    coordinator_ = proto::PeerId();
    ConnectCoordinator(core_.incarnation());
  } else if (const auto it = shards_.find(peer); it != shards_.end()) {
    const auto [address, incarnation] = it->second;
    shards_.erase(it);
    if (incarnation == core_.incarnation()) {
      ConnectShard(address, incarnation);
    }
  }
}

Result<client::WorkerSettings> WorkerNode::Configure(const proto::JoinReply& /*reply*/) {
  return options_.settings;
}

void WorkerNode::ConnectCoordinator(Incarnation incarnation) {
  const uint64_t attempt = ++attempt_;
  const std::string name = "n" + std::to_string(node_);
  network_->Connect(
      node_,
      options_.coordinator_node,
      {proto::Role::kWorker, "token", name, incarnation, core_.term()},
      [this, attempt](proto::PeerId peer) {
        if (attempt != attempt_) {
          network_->Close(node_, peer);  // asked for under an earlier incarnation
          return;
        }
        coordinator_ = peer;
        core_.OnCoordinatorConnected(peer, network_->TermOf(peer), clock_.Now(), &out_);
      });
}

void WorkerNode::ConnectShard(const proto::ShardAddress& address, Incarnation incarnation) {
  const uint64_t attempt = ++shard_attempts_[address.shard];
  const std::string name = "n" + std::to_string(node_);
  network_->Connect(
      node_,
      static_cast<int>(address.port),
      {proto::Role::kWorker, "token", name, incarnation},
      [this, address, incarnation, attempt](proto::PeerId peer) {
        if (incarnation != core_.incarnation() || attempt != shard_attempts_[address.shard]) {
          network_->Close(node_, peer);
          return;
        }
        shards_[peer] = {address, incarnation};
        core_.OnShardConnected(address.shard, peer, clock_.Now(), &out_);
      });
}

void WorkerNode::ForgetShard(ShardId shard) {
  ++shard_attempts_[shard];
  std::erase_if(shards_, [&](const auto& entry) { return entry.second.first.shard == shard; });
}

Status WorkerNode::Prepare(const client::ChunkLayout& layout, size_t gradients) {
  PS_ASSIGN(tensors_, client::HostTensors::Make(layout, gradients));
  encoder_.emplace(layout, options_.settings.frame_bytes, true);
  if (options_.doubles_residual) {
    doubled_.emplace(layout, options_.settings.frame_bytes);
  }
  gradients_ = gradients;
  return Status::Ok();
}

Status WorkerNode::ChangeEncodings(const client::ChunkLayout& layout, bool has_feedback) {
  encoder_->Change(layout, has_feedback);
  return Status::Ok();
}

void WorkerNode::TakeChunk(const client::PullIntake::Fresh& fresh) {
  tensors_->Take(fresh);
  if (fresh.is_difference && options_.doubles_differences) {
    tensors_->Take(fresh);
  }
}

Result<client::GradientLoan> WorkerNode::StartCompute(const client::ComputeTask& task) {
  if (task.kind == proto::LeaseKind::kEvaluate) {
    Schedule(options_.step_time * 2, [this, task] {
      core_.OnEvaluated(task.session, {1.0, task.end - task.begin, 0.01}, clock_.Now(), &out_);
    });
    return client::GradientLoan();
  }
  oracle_->OnStepStarted(core_.incarnation(), task.step, {task.epoch, task.begin, task.end});
  oracle_->CheckParameters(core_.incarnation(), core_.layout(), tensors_->parameters());
  PS_ASSIGN(const std::shared_ptr<client::FlatGradient> gradient, tensors_->Lend());
  PS_CHECK(tensors_->gradient_count() == gradients_) << "the core keeps what it was lent";
  FinishTensor(task, gradient.get(), core_.layout().tensor_count());
  return client::GradientLoan(gradient);
}

/// Of a step that is to end early some of its minibatches.
uint64_t WorkerNode::SamplesDone(const client::ComputeTask& task) const {
  const uint64_t samples = task.end - task.begin;
  if (ended_early_ != task.step) {
    return samples;
  }
  return std::min<uint64_t>(samples, task.minibatch * (1 + Mix64(task.begin) % task.local_steps));
}

/// Backward: the last tensor is ready first, each after its part of the step's time.
void WorkerNode::FinishTensor(
    const client::ComputeTask& task, client::FlatGradient* gradient, size_t tensor) {
  const size_t count = core_.layout().tensor_count();
  const Duration share = options_.step_time * slowdown_ / static_cast<int64_t>(count + 1);
  Schedule(share, [this, task, gradient, tensor] {
    if (tensor == 0) {
      client::ComputeResult result{1.0, 1, Seconds(options_.step_time), SamplesDone(task)};
      if (result.samples < task.end - task.begin) {
        oracle_->OnStepCut(core_.incarnation(), task.step, task.begin + result.samples);
        result.samples = options_.hides_cuts ? 0 : result.samples;
      }
      core_.OnComputed(task.session, result, clock_.Now(), &out_);
      return;
    }
    FillTensor(task, gradient, static_cast<uint32_t>(tensor - 1));
    core_.OnTensorReady(task.session, static_cast<uint32_t>(tensor - 1), clock_.Now(), &out_);
    FinishTensor(task, gradient, tensor - 1);
  });
}

void WorkerNode::FillTensor(
    const client::ComputeTask& task, client::FlatGradient* gradient, uint32_t tensor) {
  for (const client::ChunkLayout::Chunk& chunk : core_.layout().chunks()) {
    if (TensorOf(chunk.key) != tensor) {
      continue;
    }
    const ChunkGradient values(chunk.key, task.epoch, task.begin);
    const bool is_finite = oracle_->IsFinite(chunk.key, task.epoch, task.begin);
    const std::span<float> place =
        gradient->floats().subspan(static_cast<size_t>(chunk.offset), chunk.element_count);
    for (uint32_t i = 0; i < chunk.element_count; ++i) {
      const bool is_nan = !is_finite && i + 1 == chunk.element_count;
      place[i] = is_nan ? std::numeric_limits<float>::quiet_NaN() : values.At(i);
    }
  }
  if (doubled_) {
    doubled_->Before(tensor, gradient->floats());
  }
  Encode(task, gradient, tensor);
  if (doubled_) {
    doubled_->After(tensor, gradient->floats());
  }
}

void WorkerNode::Encode(
    const client::ComputeTask& task, client::FlatGradient* gradient, uint32_t tensor) {
  if (handed_over_ != task.step) {
    encoder_->Encode(tensor, gradient->floats());
    return;
  }
  const std::span<float> values = gradient->floats();
  const std::vector<float> before(values.begin(), values.end());
  encoder_->HandOver(tensor, gradient);
  for (size_t i = 0; options_.doubles_hand_over && i < values.size(); ++i) {
    values[i] += gradient->IsWhole(tensor) ? values[i] - before[i] : 0;
  }
}

void WorkerNode::HandOver(Step step) {
  handed_over_ = step;
  if (step != 0) {
    oracle_->OnHandOver(core_.incarnation(), step);
  }
}

void WorkerNode::Exit(const Status& status) {
  // The core may be in the middle of a call: the process ends right after.
  Schedule({}, [this, status] {
    Kill(false);
    options_.on_exit(status);
  });
}

}  // namespace ps::sim
