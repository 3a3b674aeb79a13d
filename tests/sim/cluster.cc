#include "tests/sim/cluster.h"

#include <map>
#include <memory>
#include <utility>

#include "ps/base/logger.h"
#include "ps/coordinator/coordinator_core.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle.h"
#include "tests/sim/shard_node.h"
#include "tests/sim/worker_node.h"

namespace ps::sim {
namespace {

/// Keeps the log of the run, so that a failure can show it.
class TextSink final : public LogSink {
 public:
  explicit TextSink(bool is_wanted) : is_wanted_(is_wanted) {}

  bool Takes(LogLevel /*level*/) const override { return is_wanted_; }

  void Write(LogLevel /*level*/, std::string_view line) override { text_ += line; }

  const std::string& text() const { return text_; }

 private:
  const bool is_wanted_;
  std::string text_;
};

class Cluster final : public coordinator::FleetActions, public Network::Observer, public Node {
 public:
  explicit Cluster(const Scenario& scenario);
  Outcome Run();

  // coordinator::FleetActions.
  void StartServer(uint32_t server) override;
  void StartWorker(WorkerId seat, const proto::WorkerGroup& group) override;
  void NotifyWorker(WorkerId seat, Duration grace) override;
  void KillWorker(WorkerId seat) override;

  // Node: the coordinator.
  void OnAccepted(proto::PeerId peer, const proto::Hello& hello) override {
    core_->OnPeerConnected(peer, hello, queue_.Now(), &out_);
  }

  void OnMessage(proto::PeerId from, uint64_t request_id, proto::Message message) override {
    core_->OnMessage(from, request_id, std::move(message), queue_.Now(), &out_);
  }

  void OnClosed(proto::PeerId peer) override { core_->OnPeerClosed(peer, queue_.Now(), &out_); }

  // Network::Observer.
  void OnSend(int from, int to, const proto::Hello& hello, const proto::Message& message) override;
  void BeforeDelivery(int from, int to, const proto::Message& message) override;
  void AfterDelivery(int from, int to, const proto::Message& message) override;

 private:
  struct Process {
    WorkerId seat;
    int64_t pid = 0;
    std::unique_ptr<Logger> log;
    std::unique_ptr<WorkerNode> node;
  };

  void Tick();
  void JudgeAnswers();
  void Plan(uint32_t count, void (Cluster::*fault)());
  void KillOne();
  void KillSeveral();

  void KillAtNextMessage() { ++armed_kills_; }

  void NoticeOne();
  void PartitionTwo();
  void HangOne();
  void Kill(Process* process);
  void Replace(WorkerId seat);
  Process* RandomProcess();
  Process* ProcessOf(int node);
  const ShardId* ShardOf(int node) const;

  const Scenario scenario_;
  Random random_;
  EventQueue queue_;
  Network network_;
  TextSink sink_;
  Logger log_;
  Oracle oracle_;
  int node_ = 0;
  NodeOutbox out_;
  std::unique_ptr<coordinator::CoordinatorCore> core_;
  std::map<int, ShardId> shard_of_node_;
  std::map<ShardId, int> node_of_shard_;
  std::vector<std::unique_ptr<ShardNode>> shards_;
  std::vector<std::unique_ptr<Process>> processes_;  // ever started
  uint32_t armed_kills_ = 0;
  std::vector<std::function<void()>> answers_;  // of shards, in the delivery under way
  std::vector<std::string> violations_;
};

Cluster::Cluster(const Scenario& scenario)
    : scenario_(scenario),
      random_(scenario.seed),
      network_(&queue_, scenario.seed + 1),
      sink_(scenario.log_detail != LogDetail::kNone),
      log_("c", &queue_, &sink_),
      oracle_(
          {scenario.mode,
           scenario.staleness_max,
           scenario.epochs,
           scenario.train_samples,
           kSimulatedFrameKib << 10U,
           scenario.overlap,
           SimulatedTensors(),
           scenario.seed}),
      node_(network_.AddNode(this)),
      out_(&network_, node_) {
  network_.set_faults(scenario.network);
  network_.set_observer(this);
  if (scenario.log_detail == LogDetail::kMessages) {
    network_.set_log(&log_);
  }
  coordinator::CoordinatorOptions options;
  options.config = SimulatedJob(scenario);
  options.tensors = SimulatedTensors();
  options.train_samples = scenario.train_samples;
  options.test_samples = 20;
  core_ = std::make_unique<coordinator::CoordinatorCore>(std::move(options), this, &log_);
}

void Cluster::StartServer(uint32_t server) {
  const ShardId shard(server);
  shards_.push_back(std::make_unique<ShardNode>(
      shard, scenario_.seed * 100 + server, &queue_, &network_, &sink_, [this] {
        JudgeAnswers();
      }));
  ShardNode* const node = shards_.back().get();
  shard_of_node_[node->node()] = shard;
  node_of_shard_[shard] = node->node();
  oracle_.AddShard(shard, node);
  node->Start(node_);
}

void Cluster::StartWorker(WorkerId seat, const proto::WorkerGroup& /*group*/) {
  queue_.After(std::chrono::milliseconds(20), [this, seat] {
    const size_t number = processes_.size();
    auto process = std::make_unique<Process>();
    process->seat = seat;
    process->pid = 1000 + static_cast<int64_t>(number);
    process->log = std::make_unique<Logger>("w" + std::to_string(seat.value), &queue_, &sink_);
    WorkerNode::Options options;
    options.core.join.seat = seat;
    options.core.join.has_seat = true;
    options.core.join.pid = process->pid;
    options.core.timing = proto::Timing::FromMaxDetect(kSimulatedMaxDetect);
    options.core.seed = scenario_.seed * 100 + number;
    options.settings.mode = scenario_.mode;
    options.settings.overlap = scenario_.overlap;
    options.settings.frame_bytes = kSimulatedFrameKib << 10U;
    options.settings.timing = options.core.timing;
    for (const TensorSpec& tensor : SimulatedTensors()) {
      options.settings.tensor_elements.push_back(tensor.element_count());
    }
    options.step_time = std::chrono::milliseconds(20 + 25 * (seat.value % 3));
    options.coordinator_node = node_;
    options.shard_nodes = node_of_shard_;
    options.on_exit = [this, raw = process.get()](const Status& status) {
      log_.Info("worker_exited", {{"seat", raw->seat.value}, {"status", status}});
      core_->OnProcessExited(
          {coordinator::ProcessKind::kWorker, raw->seat.value, raw->pid, "exited with code 0"},
          queue_.Now(),
          &out_);
      const bool is_over = status.ok() || core_->is_finished();
      if (!is_over) {
        Replace(raw->seat);
      }
    };
    process->node = std::make_unique<WorkerNode>(
        std::move(options), &queue_, &network_, &oracle_, process->log.get());
    processes_.push_back(std::move(process));
    processes_.back()->node->Start();
  });
}

void Cluster::NotifyWorker(WorkerId seat, Duration grace) {
  for (const auto& process : processes_) {
    if (process->seat == seat && process->node->is_alive()) {
      queue_.After({}, [node = process->node.get(), grace] { node->Notice(grace); });
    }
  }
}

void Cluster::KillWorker(WorkerId seat) {
  for (const auto& process : processes_) {
    if (process->seat == seat && process->node->is_alive()) {
      Kill(process.get());
    }
  }
}

/// Half of the deaths are told by the launcher, a quarter by closed connections alone, a quarter by
/// nothing but silence.
void Cluster::Kill(Process* process) {
  const uint64_t how = random_.Below(4);
  process->node->Kill(how == 3);
  log_.Info("killed", {{"seat", process->seat.value}, {"how", how}});
  if (how < 2) {
    queue_.After(std::chrono::milliseconds(random_.Below(20)), [this, process] {
      core_->OnProcessExited(
          {coordinator::ProcessKind::kWorker,
           process->seat.value,
           process->pid,
           "killed by signal 9 (Killed)"},
          queue_.Now(),
          &out_);
    });
  }
  Replace(process->seat);
}

/// A replacement for the seat, sooner or later.
void Cluster::Replace(WorkerId seat) {
  queue_.After(std::chrono::milliseconds(random_.Below(3000)), [this, seat] {
    if (!core_->is_finished()) {
      StartWorker(seat, {});
    }
  });
}

Cluster::Process* Cluster::RandomProcess() {
  std::vector<Process*> alive;
  for (const auto& process : processes_) {
    if (process->node->is_alive()) {
      alive.push_back(process.get());
    }
  }
  return alive.empty() ? nullptr : alive[random_.Below(alive.size())];
}

Cluster::Process* Cluster::ProcessOf(int node) {
  for (const auto& process : processes_) {
    if (process->node->node() == node) {
      return process.get();
    }
  }
  return nullptr;
}

const ShardId* Cluster::ShardOf(int node) const {
  const auto it = shard_of_node_.find(node);
  return it == shard_of_node_.end() ? nullptr : &it->second;
}

void Cluster::KillOne() {
  if (Process* process = RandomProcess(); process != nullptr) {
    Kill(process);
  }
}

void Cluster::KillSeveral() {
  for (uint64_t n = 2 + random_.Below(scenario_.workers); n > 0; --n) {
    KillOne();
  }
}

void Cluster::NoticeOne() {
  if (Process* process = RandomProcess(); process != nullptr) {
    // From "already too late" to "plenty".
    const Duration grace = std::chrono::milliseconds(random_.Below(400));
    process->node->Notice(grace);
    queue_.After(grace + std::chrono::milliseconds(1), [this, process] {
      if (process->node->is_alive()) {
        Kill(process);
      }
    });
  }
}

void Cluster::PartitionTwo() {
  Process* const process = RandomProcess();
  if (process == nullptr) {
    return;
  }
  const uint64_t other = random_.Below(shards_.size() + 1);
  const int node = other == 0 ? node_ : shards_[other - 1]->node();
  network_.Partition(process->node->node(), node, std::chrono::milliseconds(random_.Below(3000)));
}

void Cluster::HangOne() {
  if (Process* process = RandomProcess(); process != nullptr) {
    const Duration how_long = std::chrono::milliseconds(500 + random_.Below(4000));
    network_.Partition(process->node->node(), node_, how_long);
    for (const auto& shard : shards_) {
      network_.Partition(process->node->node(), shard->node(), how_long);
    }
  }
}

void Cluster::Plan(uint32_t count, void (Cluster::*fault)()) {
  for (uint32_t i = 0; i < count; ++i) {
    const Duration when = FromSeconds(random_.Unit() * Seconds(scenario_.disturbed_for));
    queue_.After(when, [this, fault] { (this->*fault)(); });
  }
}

void Cluster::OnSend(
    int from, int /*to*/, const proto::Hello& hello, const proto::Message& message) {
  if (const ShardId* const shard = ShardOf(from); shard != nullptr) {
    // Judged when the delivery that caused it has been taken into account. A worker connects to a
    // shard for one incarnation, and may have a newer one by now.
    if (const auto* push = std::get_if<proto::PushReply>(&message)) {
      answers_.emplace_back([this, s = *shard, i = hello.incarnation, reply = *push] {
        oracle_.OnPushReply(s, i, reply);
      });
    } else if (std::holds_alternative<proto::PullReply>(message)) {
      answers_.emplace_back(
          [this, s = *shard, i = hello.incarnation] { oracle_.OnPullReply(s, i); });
    }
  }
  if (armed_kills_ > 0 && random_.Chance(0.02)) {
    if (Process* process = ProcessOf(from); process != nullptr && process->node->is_alive()) {
      --armed_kills_;
      Kill(process);
    }
  }
}

void Cluster::BeforeDelivery(int /*from*/, int to, const proto::Message& message) {
  if (armed_kills_ > 0 && random_.Chance(0.02)) {
    if (Process* process = ProcessOf(to); process != nullptr && process->node->is_alive()) {
      --armed_kills_;
      Kill(process);
      return;
    }
  }
  const ShardId* const shard = ShardOf(to);
  if (shard == nullptr) {
    return;
  }
  if (const auto* push = std::get_if<proto::PushRequest>(&message)) {
    oracle_.BeforePush(*shard, *push);
  } else if (const auto* pull = std::get_if<proto::PullRequest>(&message)) {
    oracle_.OnPullRequest(*shard, *pull);
  } else if (const auto* membership = std::get_if<proto::Membership>(&message)) {
    oracle_.OnMembership(*shard, *membership);
  } else if (const auto* setup = std::get_if<proto::ShardSetup>(&message)) {
    oracle_.OnSetup(*shard, *setup);
  }
}

void Cluster::AfterDelivery(int /*from*/, int to, const proto::Message& message) {
  if (const ShardId* const shard = ShardOf(to); shard != nullptr) {
    if (const auto* push = std::get_if<proto::PushRequest>(&message)) {
      oracle_.AfterPush(*shard, *push);
    } else if (const auto* commit = std::get_if<proto::CommitRound>(&message)) {
      oracle_.AfterCommit(*shard, *commit);
    }
  } else if (to == node_) {
    if (const Status check = core_->Check(); !check.ok()) {
      violations_.push_back(check.ToString());
    }
  }
  JudgeAnswers();
}

void Cluster::JudgeAnswers() {
  for (const auto& answer : std::exchange(answers_, {})) {
    answer();
  }
}

void Cluster::Tick() {
  core_->OnTick(queue_.Now(), &out_);
  for (const auto& shard : shards_) {
    shard->Tick();
  }
  queue_.After(proto::Timing::FromMaxDetect(kSimulatedMaxDetect).tick, [this] { Tick(); });
}

Outcome Cluster::Run() {
  const TimePoint begin = queue_.Now();
  core_->Start(begin);
  Tick();
  Plan(scenario_.kills, &Cluster::KillOne);
  Plan(scenario_.kills_at_message, &Cluster::KillAtNextMessage);
  Plan(scenario_.multi_kills, &Cluster::KillSeveral);
  Plan(scenario_.notices, &Cluster::NoticeOne);
  Plan(scenario_.partitions, &Cluster::PartitionTwo);
  Plan(scenario_.hangs, &Cluster::HangOne);
  queue_.After(scenario_.disturbed_for, [this] { armed_kills_ = 0; });
  while (!core_->is_finished() && queue_.Now() - begin < scenario_.time_limit &&
         oracle_.violations().empty() && violations_.empty() && queue_.RunOne()) {
  }
  Outcome outcome;
  outcome.is_finished = core_->is_finished();
  outcome.status = core_->outcome();
  if (outcome.is_finished && outcome.status.ok()) {
    oracle_.CheckFinalState();
  }
  outcome.violations = violations_;
  outcome.violations.insert(
      outcome.violations.end(), oracle_.violations().begin(), oracle_.violations().end());
  outcome.trace_hash = network_.trace_hash();
  outcome.delivered = network_.delivered();
  outcome.pushes_checked = oracle_.pushes_checked();
  outcome.virtual_time = queue_.Now() - begin;
  outcome.job = core_->StatusAt(queue_.Now());
  outcome.log = sink_.text();
  return outcome;
}

}  // namespace

Outcome Simulate(const Scenario& scenario) {
  Cluster cluster(scenario);
  return cluster.Run();
}

}  // namespace ps::sim
