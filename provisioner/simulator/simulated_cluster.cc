#include "provisioner/simulator/simulated_cluster.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>

namespace ps::provisioner {
namespace {

constexpr proto::PeerId kControl(1);
constexpr proto::PeerId kShardPeer(2);
constexpr uint64_t kFirstWorkerPeer = 2;  // and the number of its process
constexpr ShardId kShard(0);
/// A step counts as done when less than this fraction is left.
constexpr double kRounding = 1e-6;

proto::PeerId PeerOf(ProcessHandle process) {
  return proto::PeerId(kFirstWorkerPeer + process.value);
}

size_t Of(Market market) {
  return static_cast<size_t>(market);
}

}  // namespace

SimulatedCluster::SimulatedCluster(
    const SimulatedJob& job, double end_s, size_t machines, const CoresOptions& options)
    : job_(job),
      own_log_(
          options.log == nullptr
              ? nullptr
              : std::make_unique<Logger>("coordinator", &clock_, options.log, int64_t{0})),
      log_(own_log_ == nullptr ? &NullLogger() : own_log_.get()),
      launcher_(job, machines, &clock_),
      options_(SimulatedCoordinator(job, end_s, options)),
      fleet_(SimulatedFleetOptions(options_.config, &clock_), &launcher_, log_),
      core_(std::make_unique<coordinator::CoordinatorCore>(options_, &fleet_, log_)) {}

void SimulatedCluster::Start() {
  core_->Start(clock_.Now());
  core_->OnPeerConnected(
      kControl, {proto::Role::kControl, "", "policy", Incarnation()}, clock_.Now(), this);
  core_->OnPeerConnected(
      kShardPeer, {proto::Role::kShard, "", "s0", Incarnation()}, clock_.Now(), this);
  Give(kShardPeer, proto::RegisterShard{kShard, "server", 1, 1, 0, LaunchId()});
  Settle();
}

// ---- Time ---------------------------------------------------------------------------------------

double SimulatedCluster::RateOfEach() const {
  return computing_ == 0
             ? 0
             : job_.samples_per_s[std::min(computing_, job_.workers_max())] / computing_;
}

/// When the next worker has something to say. Ends that are no more are skipped when it comes.
double SimulatedCluster::WorkAt() const {
  return due_.empty() || computing_ == 0
             ? kNeverS
             : clock_.now_s() + std::max(0.0, std::get<0>(due_.top()) - work_) / RateOfEach();
}

double SimulatedCluster::next_at_s() const {
  return std::min({WorkAt(), launcher_.next_at_s(), next_tick_s_, next_beat_s_});
}

void SimulatedCluster::Pass(double until_s) {
  if (until_s >= WorkAt()) {
    work_ = std::max(work_, std::get<0>(due_.top()));  // what is left by rounding is none
  } else {
    work_ += RateOfEach() * (until_s - clock_.now_s());
  }
  clock_.Set(until_s);
}

bool SimulatedCluster::Act() {
  const auto told = [this] { return std::pair(launcher_.untold(), launcher_.failed_starts()); };
  const auto before = told();
  bool has_come = false;
  while (!due_.empty() && std::get<0>(due_.top()) <= work_) {
    const auto [target, process] = due_.top();
    due_.pop();
    Worker* const worker = Find(process);
    if (worker != nullptr && worker->is_computing && worker->target == target) {
      Finish(worker);
      Settle();
    }
  }
  if (launcher_.next_at_s() <= clock_.now_s()) {
    for (const SimulatedLauncher::Ready& ready : launcher_.TakeReady()) {
      Connect(ready);
      has_come = true;
    }
  }
  if (next_beat_s_ <= clock_.now_s()) {
    Beat();
  }
  is_tick_due_ = is_tick_due_ || next_tick_s_ <= clock_.now_s();
  Settle();
  return has_come || told() != before;
}

/// Heartbeats of the workers that have not spoken for long.
void SimulatedCluster::Beat() {
  const double every_s = double{options_.config.fleet.max_detect_s} / kBeatsPerDetect;
  next_beat_s_ = clock_.now_s() + every_s;
  for (const auto& worker : workers_) {
    if (worker != nullptr && clock_.now_s() - worker->spoke_s >= every_s &&
        worker->script.incarnation() != Incarnation()) {
      const auto state = worker->is_leaving     ? proto::WorkerState::kDraining
                         : worker->is_computing ? proto::WorkerState::kComputing
                                                : proto::WorkerState::kWaiting;
      Say(worker.get(), worker->script.Beat(state));
    }
  }
  proto::ShardHeartbeat beat;
  beat.shard = kShard;
  Give(kShardPeer, std::move(beat));
}

// ---- The world ----------------------------------------------------------------------------------

void SimulatedCluster::Want(const FleetWish& wish) {
  const auto change = [](const char* market, uint32_t count) {
    return proto::ScaleChange{market, static_cast<int32_t>(count), false, false, {}};
  };
  Give(
      kControl,
      proto::ScaleRequest{{change(kSpotGroup, wish.spot), change(kOnDemandGroup, wish.on_demand)}});
  is_tick_due_ = true;
  Settle();
}

void SimulatedCluster::GiveNotice(size_t machine) {
  launcher_.Withdraw(machine);
  if (Worker* const worker = Find(launcher_.On(machine)); worker != nullptr) {
    Leave(worker, "the machine is taken back");
    is_tick_due_ = true;
    Settle();
  } else {
    Revoke(machine);
  }
}

void SimulatedCluster::Revoke(size_t machine) {
  const ProcessHandle process = launcher_.Revoke(machine);
  if (process == ProcessHandle()) {
    return;
  }
  ++revocations_;
  Lose(process);
  if (job_.detect_s <= 0) {
    core_->OnPeerClosed(PeerOf(process), clock_.Now(), this);
    is_tick_due_ = true;
  }
  Settle();
}

void SimulatedCluster::ReportAll() {
  for (const auto& worker : workers_) {
    if (worker != nullptr && worker->is_computing) {
      if (const uint64_t steps = StepsInHand(*worker); steps > 0) {
        StopComputing(worker.get());
        Say(worker.get(), worker->script.Report(steps));
      }
    }
  }
  Settle();
}

// ---- Workers ------------------------------------------------------------------------------------

SimulatedCluster::Worker* SimulatedCluster::Find(ProcessHandle process) const {
  return process.value < workers_.size() ? workers_[process.value].get() : nullptr;
}

void SimulatedCluster::Connect(const SimulatedLauncher::Ready& ready) {
  const uint64_t place = ready.process.value;
  workers_.resize(std::max<size_t>(workers_.size(), place + 1));
  workers_[place] = std::make_unique<Worker>();
  Worker* const worker = workers_[place].get();
  worker->process = ready.process;
  worker->seat = WorkerId(ready.index);
  worker->market = ready.market;
  ++connected_[Of(ready.market)];
  core_->OnPeerConnected(
      PeerOf(ready.process),
      {proto::Role::kWorker, "", fmt::format("w{}", ready.index), Incarnation()},
      clock_.Now(),
      this);
  proto::JoinRequest join;
  join.seat = worker->seat;
  join.has_seat = true;
  join.host = ready.market == Market::kSpot ? kSpotGroup : kOnDemandGroup;
  join.launch = ready.launch;
  Say(worker, std::move(join));
}

void SimulatedCluster::Hear(Worker* worker, const proto::Message& message) {
  if (const auto* refusal = std::get_if<proto::Refusal>(&message)) {
    trouble_ = Status::Corruption(fmt::format(
        "the coordinator refuses worker {} at {:.3f} s: {}",
        worker->seat.value,
        clock_.now_s(),
        refusal->message));
  } else if (const auto* drain = std::get_if<proto::Drain>(&message)) {
    Leave(worker, drain->reason.c_str());
  } else if (
      std::holds_alternative<proto::GoodbyeReply>(message) ||
      std::holds_alternative<proto::Shutdown>(message)) {
    const ProcessHandle process = worker->process;
    Forget(worker);
    core_->OnPeerClosed(PeerOf(process), clock_.Now(), this);
    launcher_.End(process);
  } else if (worker->script.Take(message)) {
    if (std::holds_alternative<proto::LeaseGrant>(message)) {
      Compute(worker);
    } else {
      last_steps_.resize(
          std::max<size_t>(last_steps_.size(), worker->script.incarnation().value + 1));
      Say(worker, worker->script.AskForWork());
    }
  }
}

void SimulatedCluster::Compute(Worker* worker) {
  if (worker->is_leaving) {
    return;  // the grant crossed its goodbye
  }
  worker->is_computing = true;
  worker->begin = work_;
  worker->target = work_ + static_cast<double>(worker->script.samples_left());
  ++computing_;
  begins_ += worker->begin;
  due_.emplace(worker->target, worker->process);
}

void SimulatedCluster::StopComputing(Worker* worker) {
  if (worker->is_computing) {
    worker->is_computing = false;
    --computing_;
    begins_ = computing_ == 0 ? 0 : begins_ - worker->begin;
  }
}

uint64_t SimulatedCluster::StepsInHand(const Worker& worker) const {
  const double minibatch = worker.script.minibatch();
  const double done = work_ - worker.begin;
  const auto left = static_cast<double>(worker.script.samples_left());
  return static_cast<uint64_t>(
      done >= left - kRounding * minibatch ? std::ceil(left / minibatch)
                                           : std::floor(done / minibatch + kRounding));
}

/// It finishes the step in hand, and goes.
void SimulatedCluster::Leave(Worker* worker, const char* why) {
  if (worker->is_leaving || worker->script.incarnation() == Incarnation()) {
    return;
  }
  worker->is_leaving = true;
  ++leaving_[Of(worker->market)];
  Say(worker, worker->script.Beat(proto::WorkerState::kDraining));
  if (!worker->is_computing) {
    Say(worker, proto::Goodbye{worker->script.incarnation(), why, {}});
    return;
  }
  const double minibatch = worker->script.minibatch();
  const double steps = std::ceil((work_ - worker->begin) / minibatch - kRounding);
  worker->target = std::min(worker->target, worker->begin + steps * minibatch);
  due_.emplace(worker->target, worker->process);
}

void SimulatedCluster::Finish(Worker* worker) {
  const uint64_t steps = StepsInHand(*worker);
  StopComputing(worker);
  const Incarnation incarnation = worker->script.incarnation();
  if (steps > 0) {
    Say(worker, worker->script.Report(steps));
  }
  if (worker->is_leaving) {
    Say(worker, proto::Goodbye{incarnation, "told to leave", {}});
  } else {
    Say(worker, worker->script.AskForWork());
  }
}

void SimulatedCluster::Lose(ProcessHandle process) {
  Worker* const worker = Find(process);
  if (worker == nullptr) {
    return;
  }
  if (worker->is_computing) {
    const double rate = RateOfEach();
    const uint64_t steps = StepsInHand(*worker);
    const double done =
        work_ - worker->begin - static_cast<double>(steps) * worker->script.minibatch();
    lost_node_s_ += std::max(0.0, done) / rate;
    last_steps_[worker->script.incarnation().value] = worker->script.step() + steps;
    steps_ += steps;
  }
  Forget(worker);
}

void SimulatedCluster::Forget(Worker* worker) {
  StopComputing(worker);
  --connected_[Of(worker->market)];
  leaving_[Of(worker->market)] -= worker->is_leaving ? 1 : 0;
  workers_[worker->process.value].reset();
}

// ---- Messages -----------------------------------------------------------------------------------

void SimulatedCluster::Say(Worker* worker, proto::Message message) {
  worker->spoke_s = clock_.now_s();
  if (const auto* report = std::get_if<proto::StepReport>(&message)) {
    steps_ += report->steps.size();
    last_steps_[report->incarnation.value] = worker->script.step();
  }
  Give(PeerOf(worker->process), std::move(message));
}

void SimulatedCluster::Give(proto::PeerId from, proto::Message message) {
  ++messages_;
  core_->OnMessage(from, messages_, std::move(message), clock_.Now(), this);
}

void SimulatedCluster::Send(proto::PeerId to, uint64_t /*request_id*/, proto::Message message) {
  sent_.emplace_back(to, std::move(message));
}

void SimulatedCluster::Settle() {
  while (trouble_.ok()) {
    if (!sent_.empty()) {
      for (const auto& [to, message] : std::exchange(sent_, {})) {
        Deliver(to, message);
      }
      continue;
    }
    const std::vector<ProcessHandle> killed = launcher_.TakeKilled();
    for (const ProcessHandle process : killed) {
      if (Find(process) != nullptr) {
        Lose(process);
        core_->OnPeerClosed(PeerOf(process), clock_.Now(), this);
      }
    }
    const std::vector<proto::ProcessEnd> ends = fleet_.TakeEnds();
    for (const proto::ProcessEnd& end : ends) {
      core_->OnProcessExited(end, clock_.Now(), this);
    }
    is_tick_due_ = is_tick_due_ || !ends.empty();
    if (killed.empty() && ends.empty() && sent_.empty()) {
      return;
    }
  }
}

void SimulatedCluster::Tick() {
  while (is_tick_due_ && trouble_.ok()) {
    is_tick_due_ = false;
    next_tick_s_ = clock_.now_s() + Seconds(proto::Timing::Of(options_.config).tick);
    core_->OnTick(clock_.Now(), this);
    Settle();
  }
}

void SimulatedCluster::Deliver(proto::PeerId to, const proto::Message& message) {
  if (to == kControl) {
    if (const auto* refusal = std::get_if<proto::Refusal>(&message)) {
      trouble_ =
          Status::Corruption("the coordinator refuses what the policy wants: " + refusal->message);
    }
  } else if (to == kShardPeer) {
    const auto last_step_of = [this](Incarnation incarnation) {
      return incarnation.value < last_steps_.size() ? last_steps_[incarnation.value] : 0;
    };
    if (std::optional<proto::Message> answer = AnswerOfShard(kShard, message, last_step_of)) {
      Give(kShardPeer, *std::move(answer));
    }
  } else if (Worker* const worker = Find(ProcessHandle(to.value - kFirstWorkerPeer))) {
    Hear(worker, message);
  }
}

// ---- What is known ------------------------------------------------------------------------------

double SimulatedCluster::samples() const {
  return static_cast<double>(samples_counted()) + computing_ * work_ - begins_;
}

SimulatedCluster::FleetKnown SimulatedCluster::known() const {
  const auto spot = Of(Market::kSpot);
  const auto on_demand = Of(Market::kOnDemand);
  return {
      held(Market::kSpot) + untold() - leaving_[spot],
      connected_[spot] - leaving_[spot] + launcher_.untold_running(),
      held(Market::kOnDemand) - leaving_[on_demand],
      connected_[on_demand] - leaving_[on_demand]};
}

Status SimulatedCluster::Check() const {
  if (!trouble_.ok()) {
    return trouble_;
  }
  if (is_over() && !core_->outcome().ok()) {
    return Status::Corruption("the simulated job ended: " + core_->outcome().ToString());
  }
  return Status::Ok();
}

}  // namespace ps::provisioner
