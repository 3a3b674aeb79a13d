#include "tests/sim/cluster.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

namespace ps::sim {
namespace {

constexpr Duration kMaxDetect = std::chrono::milliseconds(1200);
constexpr uint32_t kMinibatches[] = {4, 6, 3, 8};

std::vector<TensorSpec> Tensors() {
  // Chunks of 1 KiB: three, two and one.
  TensorSpec a{"a", {700}, InitKind::kConstant, 5};
  TensorSpec b{"b", {10, 30}, InitKind::kConstant, -2};
  TensorSpec c{"c", {7}, InitKind::kConstant, 0};
  return {a, b, c};
}

proto::JobConfig MakeConfig(const Scenario& scenario) {
  proto::JobConfig config;
  config.name = "simulation";
  config.model.name = "mlp";
  config.data.directory = ".";
  config.optimizer.kind = proto::OptimizerKind::kSgd;
  config.optimizer.lr = 1;
  config.train.epochs = scenario.epochs;
  config.train.seed = scenario.seed;
  config.train.mode = scenario.mode;
  config.train.staleness_max = scenario.staleness_max;
  config.train.minibatch = 1;  // so that a push weighs its samples, and sums stay exact
  config.train.lease_steps = 3;
  config.train.overlap = scenario.overlap;
  config.servers.count = scenario.shards;
  config.servers.chunk_kib = 1;
  config.servers.frame_kib = 1;
  config.fleet.max_detect_s = static_cast<float>(Seconds(kMaxDetect));
  for (uint32_t i = 0; i < scenario.workers; ++i) {
    config.workers.push_back({1, kMinibatches[i % std::size(kMinibatches)], 1, 1});
  }
  return config;
}

/// Keeps the log of the run, so that a failure can show it.
class TextSink final : public LogSink {
 public:
  void Write(LogLevel /*level*/, std::string_view line) override { text_ += line; }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

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

class ShardNode final : public Node, public ShardView {
 public:
  /// `after_drain` is called after the core has sent what a worker had no room for.
  ShardNode(
      ShardId shard,
      uint64_t seed,
      EventQueue* queue,
      Network* network,
      LogSink* sink,
      std::function<void()> after_drain)
      : queue_(queue),
        network_(network),
        log_("s" + std::to_string(shard.value), queue, sink),
        node_(network->AddNode(this)),
        out_(
            NodeOutbox(network, node_),
            queue,
            seed,
            [this, after_drain = std::move(after_drain)](proto::PeerId peer) {
              core_.OnDrained(peer, &out_);
              after_drain();
            }),
        core_(shard, "shard", 1, 100 + shard.value, &log_) {}

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

  void OnAccepted(proto::PeerId /*peer*/, const proto::Hello& /*hello*/) override {}

  void OnMessage(proto::PeerId from, uint64_t request_id, proto::Message message) override {
    core_.OnMessage(from, request_id, std::move(message), queue_->Now(), &out_);
  }

  void OnClosed(proto::PeerId peer) override {
    core_.OnPeerClosed(peer, queue_->Now(), &out_);
    if (peer == coordinator_ && !core_.is_shut_down()) {
      Start(coordinator_node_);
    }
  }

  Version VersionOf(ChunkKey key) const override { return core_.VersionOf(key); }

  std::span<const float> ValuesOf(ChunkKey key) const override { return core_.ValuesOf(key); }

 private:
  EventQueue* const queue_;
  Network* const network_;
  const Logger log_;
  const int node_;
  ShardOutbox out_;
  server::ShardCore core_;
  int coordinator_node_ = 0;
  proto::PeerId coordinator_;
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
  void OnSend(int from, int to, const proto::Message& message) override;
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
  Incarnation IncarnationOf(int node);

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
      log_("c", &queue_, &sink_),
      oracle_(
          {scenario.mode,
           scenario.staleness_max,
           scenario.epochs,
           scenario.train_samples,
           Tensors(),
           scenario.seed}),
      node_(network_.AddNode(this)),
      out_(&network_, node_) {
  network_.set_faults(scenario.network);
  network_.set_observer(this);
  if (scenario.logs_messages) {
    network_.set_log(&log_);
  }
  coordinator::CoordinatorOptions options;
  options.config = MakeConfig(scenario);
  options.tensors = Tensors();
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
    options.core.timing = proto::Timing::FromMaxDetect(kMaxDetect);
    options.core.seed = scenario_.seed * 100 + number;
    options.settings.mode = scenario_.mode;
    options.settings.overlap = scenario_.overlap;
    options.settings.frame_bytes = 1024;
    options.settings.timing = options.core.timing;
    for (const TensorSpec& tensor : Tensors()) {
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

Incarnation Cluster::IncarnationOf(int node) {
  const Process* const process = ProcessOf(node);
  return process == nullptr ? Incarnation() : process->node->core().incarnation();
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

void Cluster::OnSend(int from, int to, const proto::Message& message) {
  const ShardId* const shard = ShardOf(from);
  if (shard != nullptr && IncarnationOf(to) != Incarnation()) {
    // Judged when the delivery that caused it has been taken into account.
    if (const auto* push = std::get_if<proto::PushReply>(&message)) {
      answers_.emplace_back([this, s = *shard, i = IncarnationOf(to), reply = *push] {
        oracle_.OnPushReply(s, i, reply);
      });
    } else if (std::holds_alternative<proto::PullReply>(message)) {
      answers_.emplace_back(
          [this, s = *shard, i = IncarnationOf(to)] { oracle_.OnPullReply(s, i); });
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
  queue_.After(proto::Timing::FromMaxDetect(kMaxDetect).tick, [this] { Tick(); });
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

Scenario RandomScenario(uint64_t seed) {
  Random random(seed ^ 0x5ca1ab1e);
  Scenario s;
  s.seed = seed;
  s.mode = static_cast<proto::Mode>(random.Below(3));
  s.staleness_max = static_cast<uint32_t>(random.Below(4));
  s.overlap = random.Chance(0.5);
  s.shards = 1 + static_cast<uint32_t>(random.Below(3));
  s.workers = 1 + static_cast<uint32_t>(random.Below(5));
  s.epochs = 1 + static_cast<uint32_t>(random.Below(2));
  s.train_samples = 100 + random.Below(500);
  if (random.Chance(0.6)) {
    s.network.loss = random.Unit() * 0.03;
    s.network.duplication = random.Unit() * 0.1;
    s.network.reorder = random.Unit() * 0.3;
    s.network.stall = random.Unit() * 0.05;
    s.network.stall_max = std::chrono::milliseconds(250);
  }
  if (random.Chance(0.4)) {
    s.network.break_connection = random.Unit() * 0.01;
  }
  const auto some = [&random](double chance, uint64_t most) {
    return random.Chance(chance) ? 1 + static_cast<uint32_t>(random.Below(most)) : 0;
  };
  // Most jobs take one to five virtual seconds undisturbed; faults fall into their first part.
  s.disturbed_for = std::chrono::milliseconds(300 + random.Below(3000));
  s.kills = some(0.5, 4);
  s.kills_at_message = some(0.5, 4);
  s.multi_kills = some(0.3, 2);
  s.notices = some(0.4, 3);
  s.partitions = some(0.3, 3);
  s.hangs = some(0.3, 2);
  return s;
}

std::string Describe(const Scenario& s) {
  std::ostringstream text;
  constexpr const char* kModes[] = {"async", "ssp", "bsp"};
  text << "seed=" << s.seed << " mode=" << kModes[static_cast<int>(s.mode)]
       << " staleness_max=" << s.staleness_max << " overlap=" << s.overlap << " shards=" << s.shards
       << " workers=" << s.workers << " epochs=" << s.epochs << " samples=" << s.train_samples
       << " kills=" << s.kills << " kills_at_message=" << s.kills_at_message
       << " multi_kills=" << s.multi_kills << " notices=" << s.notices
       << " partitions=" << s.partitions << " hangs=" << s.hangs << " loss=" << s.network.loss
       << " reorder=" << s.network.reorder << " breaks=" << s.network.break_connection;
  return text.str();
}

}  // namespace ps::sim
