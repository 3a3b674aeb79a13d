#include "tests/sim/cluster.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "ps/base/buffer.h"
#include "ps/base/logger.h"
#include "ps/proto/job/optimizer_rules.h"
#include "tests/sim/coordinator_node.h"
#include "tests/sim/disk.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/faults/faults.h"
#include "tests/sim/faults/saboteur.h"
#include "tests/sim/fleet.h"
#include "tests/sim/model_files.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle/auditor.h"
#include "tests/sim/oracle/oracle.h"
#include "tests/sim/resume.h"
#include "tests/sim/servers.h"

namespace ps::sim {
namespace {

/// Until somebody who finds a run at its end has resumed it, and until he tries again.
constexpr uint64_t kResumeMsMax = 3000;
constexpr Duration kResumeAgain = std::chrono::milliseconds(100);
/// Beyond those that the scenario wants: of runs that ended otherwise.
constexpr uint32_t kMoreResumesMax = 3;

proto::PullReply OwnCopyOf(const proto::PullReply& reply) {
  proto::PullReply copy = reply;
  auto bytes = std::make_shared<Buffer>(reply.payload.size());
  std::byte* to = bytes->data();
  for (const std::span<const std::byte> part : reply.payload.parts) {
    to = std::ranges::copy(part, to).out;
  }
  copy.payload = proto::Payload::Own(std::move(bytes), reply.payload.size());
  return copy;
}

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

class Cluster final : public proto::FleetActions, public Network::Observer {
 public:
  explicit Cluster(const Scenario& scenario);
  Outcome Run();

  // proto::FleetActions.
  void StartServer(uint32_t server, LaunchId launch) override { servers_.Start(server, launch); }

  void StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) override {
    if (scenario_.is_replacing) {
      fleet_.Supersede(seat);
    }
    fleet_.Start(seat, launch, group.zones.empty() ? "" : group.zones.front());
  }

  void KillWorker(WorkerId seat) override { fleet_.KillSeat(seat); }

  void KillServer(uint32_t server, LaunchId keep) override { servers_.KillAllOf(server, keep); }

  bool HasServer(uint32_t server) const override { return servers_.Has(server); }

  // Network::Observer.
  void OnSend(const Network::Passage& passage, const proto::Message& message) override;
  void BeforeDelivery(const Network::Passage& passage, const proto::Message& message) override;
  void AfterDelivery(const Network::Passage& passage, const proto::Message& message) override;

 private:
  coordinator::CoordinatorOptions JobOptions();
  void Repeat(int node, const std::function<void()>& tick);
  void JudgeAnswers();
  void CheckModel();
  bool IsOver(TimePoint begin) const;
  bool IsExcused() const;
  bool IsStopped() const;
  bool IsTaken(WorkerId seat) const;
  void BeginProcess();
  void AfterCoordinatorEvent();
  void EndProcess();
  void Stop(bool is_immediate);
  bool CanLoseServers() const;
  void NoteEnding();
  bool Damage(const std::string& directory);
  proto::JobState StateNow() const;
  bool MayResume() const;
  void EndRun();
  void Resume();
  void CheckEnd();

  const Scenario scenario_;
  Random random_;
  EventQueue queue_;
  Network network_;
  TextSink sink_;
  Logger log_;
  SimulatedSource source_;
  SimulatedSink sink_file_;
  Oracle oracle_;
  std::vector<std::string> violations_;
  checkpoint::MemoryStorage journal_storage_;
  CoordinatorNode coordinator_;
  const int node_;  // the coordinator's
  checkpoint::MemoryStorage storage_;
  std::unique_ptr<DiskQueue> disk_queue_;  // of the coordinator's process
  std::unique_ptr<SimManifestDisk> disk_;
  uint64_t processes_ = 0;  // of the coordinator, so far
  Fleet fleet_;
  Servers servers_;
  Faults faults_;
  Auditor auditor_;
  Saboteur saboteur_;
  std::vector<std::function<void()>> answers_;  // of shards, in the delivery under way
  bool is_stopped_ = false;
  bool has_crashed_ = false;  // the run, with all its processes
  bool is_between_runs_ = false;
  bool is_resuming_ = false;
  bool is_given_up_ = false;  // nothing is left that it could be resumed from
  uint32_t resumes_ = 0;
  std::optional<FoundCheckpoint> resumed_;  // what the run goes on from
  uint64_t next_checkpoint_ = 1;            // numbers before are used
  bool is_ending_ = false;
  bool has_all_servers_ = false;  // when it began to end
};

Cluster::Cluster(const Scenario& scenario)
    : scenario_(scenario),
      random_(scenario.seed),
      network_(&queue_, scenario.seed + 1),
      sink_(scenario.log_detail != LogDetail::kNone),
      log_("c", &queue_, &sink_),
      source_(&scenario_),
      sink_file_(scenario),
      oracle_(
          {scenario.epochs,
           scenario.train_samples,
           uint64_t{scenario.frame_kib} << 10U,
           scenario.overlap,
           scenario.goes_back(),
           scenario.mode == proto::Mode::kBsp && !scenario.changes_mode(),
           scenario.shards_per_server,
           scenario.not_finite_every,
           proto::ServerOptimizer(SimulatedJob(scenario)),
           scenario.is_listed && !scenario.has_live_every() ? scenario.workers : 0,
           scenario.has_live_every(),
           scenario.local_steps > 1 && scenario.sets > 0 ? kSetStepsMax : scenario.local_steps,
           scenario.has_bf16_slots,
           scenario.is_held_back || scenario.sets > 0,
           scenario.has_inexact_pulls(),
           [this](uint32_t tensor, int64_t element) {
             return SimulatedValue(scenario_, tensor, element);
           }}),
      coordinator_(
          {&random_,
           &queue_,
           &network_,
           &journal_storage_,
           this,
           &log_,
           &violations_,
           [this] { return JobOptions(); },
           [this] { BeginProcess(); },
           [this] { AfterCoordinatorEvent(); },
           [this] { EndProcess(); },
           &scenario_,
           scenario.sabotage}),
      node_(coordinator_.node()),
      fleet_(
          {&scenario_, &random_, &queue_, &network_, &oracle_, &sink_, &log_, node_},
          [this](const proto::ProcessEnd& end) { coordinator_.OnProcessEnd(end); },
          [this] { return coordinator_.core().is_finished(); },
          [this](WorkerId seat) { return IsTaken(seat); }),
      servers_(
          {&scenario_, &random_, &queue_, &network_, &sink_, &log_, &storage_, node_},
          {[this](const Servers::Process& p) {
             oracle_.AddProcess(p.node, p.shard, p.shard_node.get());
           },
           [this](const proto::ProcessEnd& end) { coordinator_.OnProcessEnd(end); },
           [this](const Servers::Process& p) {
             JudgeAnswers();
             oracle_.CheckShard(p.node);
           },
           [this](const Servers::Process& p, uint64_t checkpoint) {
             answers_.emplace_back(
                 [this, node = p.node, checkpoint] { oracle_.OnSnapshot(node, checkpoint); });
           },
           [this](const Servers::Process& p, uint64_t checkpoint) {
             oracle_.OnPartCommitted(p.node, checkpoint);
             auditor_.CheckParts(p.shard);
           }}),
      faults_(
          {&scenario_,
           &random_,
           &queue_,
           &network_,
           &log_,
           &fleet_,
           &servers_,
           node_,
           [this](Duration pause) { coordinator_.Restart(pause); },
           [this](Duration how_long, Duration pause) { coordinator_.Freeze(how_long, pause); },
           [this](bool is_immediate) { Stop(is_immediate); },
           [this] { has_crashed_ = !is_between_runs_; },
           [this](proto::Message request) { coordinator_.Ask(std::move(request)); },
           [this] { return CanLoseServers(); },
           [this](const std::string& directory) { return Damage(directory); },
           [this](bool is_full, bool are_marks_refused) {
             journal_storage_.SetFull("", is_full);
             journal_storage_.RefuseMarks(are_marks_refused);
             coordinator_.NoteJournalFault();
           },
           [this](const std::string& directory, uint32_t opens) {
             storage_.FailOpens(directory, opens, Status::Io(directory + ": the disk fails"));
             storage_.FailWriters(directory);
           }}),
      auditor_(&storage_, &oracle_, &violations_),
      saboteur_(scenario.sabotage) {
  coordinator_.BeginProcess();
  storage_.SetFaultHook([this](checkpoint::Operation operation, const std::string& directory) {
    return faults_.CheckDisk(operation, directory);
  });
  network_.set_faults(scenario.network);
  network_.set_observer(this);
  if (scenario.sabotage != Sabotage::kNone) {
    network_.set_tamper(
        [this](int node, proto::Message* message) { saboteur_.Tamper(node, message); });
  }
  if (scenario.log_detail == LogDetail::kMessages) {
    network_.set_log(&log_);
  }
}

coordinator::CoordinatorOptions Cluster::JobOptions() {
  coordinator::CoordinatorOptions options;
  options.config = SimulatedJob(scenario_);
  options.tensors = SimulatedTensors(scenario_);
  options.train_samples = scenario_.train_samples;
  options.test_samples = 20;
  if (scenario_.has_few_seats) {
    options.seats_max = scenario_.workers + 1;
  }
  // A resumed job has them from its checkpoint.
  options.model_source = scenario_.has_values && !resumed_ ? &source_ : nullptr;
  options.model_sink = &sink_file_;
  options.manifests = disk_.get();
  if (is_resuming_) {
    saboteur_.TamperWithResumed(&resumed_->manifest);
    auto saved = proto::DecodeJobState(resumed_->manifest.job_state);
    PS_CHECK(saved.ok()) << saved.status();
    options.resume = coordinator::ResumeFrom{std::move(saved).value(), resumed_->manifest.id};
  }
  if (disk_ != nullptr) {
    options.checkpoints = disk_->Kept();
    const auto& kept = options.checkpoints;
    options.set_aside = disk_->SetAside();
    options.next_checkpoint = kept.empty() ? 1 : kept.back().checkpoint + 1;
    options.next_checkpoint = std::max(options.next_checkpoint, next_checkpoint_);
    if (!options.set_aside.empty()) {
      options.next_checkpoint = std::max(options.next_checkpoint, options.set_aside.back().id + 1);
    }
  }
  return options;
}

/// The coordinator's disk goes with its process.
bool Cluster::IsTaken(WorkerId seat) const {
  const proto::JobStatus status = coordinator_.core().StatusAt(coordinator_.Now());
  return std::ranges::any_of(status.workers, [seat](const proto::WorkerRow& row) {
    return row.worker == seat && !row.is_gone() && row.state != proto::WorkerRowState::kStarting;
  });
}

void Cluster::BeginProcess() {
  if (!scenario_.has_checkpoints()) {
    return;
  }
  disk_queue_ = std::make_unique<DiskQueue>(
      &queue_, &network_, node_, scenario_.seed * 100 + ++processes_, scenario_.disk_delay_max);
  disk_ = std::make_unique<SimManifestDisk>(
      &storage_,
      kCheckpointPath,
      disk_queue_.get(),
      SimManifestDisk::Answers{
          [this](uint64_t checkpoint, const Status& status) {
            coordinator_.OnManifestWritten(checkpoint, status);
          },
          [this](uint64_t checkpoint, Result<checkpoint::Manifest> manifest) {
            if (manifest.ok()) {
              saboteur_.Tamper(&*manifest);
            }
            coordinator_.OnManifestRead(checkpoint, manifest);
          },
          [this](const checkpoint::Manifest& manifest) {
            saboteur_.Note(manifest);
            auditor_.OnManifest(manifest);
            faults_.OnCheckpoint();
          },
          [this] { faults_.OnReturn(); },
          [this](uint64_t checkpoint) { next_checkpoint_ = checkpoint + 1; }});
}

/// One that is done is not begun again, and without a checkpoint there is nothing to go on from.
bool Cluster::MayResume() const {
  const bool has_failed = coordinator_.is_refused() || (coordinator_.core().is_finished() &&
                                                        !coordinator_.core().outcome().ok());
  return scenario_.resumes > 0 && resumes_ < scenario_.resumes + kMoreResumesMax &&
         faults_.has_checkpoint() && (has_crashed_ || has_failed) && violations_.empty() &&
         oracle_.violations().empty() && !is_given_up_;
}

void Cluster::EndRun() {
  log_.Info("run_ends", {{"has_crashed", has_crashed_}});
  if (!has_crashed_ && !coordinator_.is_refused()) {
    CheckEnd();
  }
  const bool with_machines = has_crashed_ && random_.Chance(0.5);
  coordinator_.EndRun();
  fleet_.EndAll();
  servers_.EndAll(with_machines);
  if (with_machines) {
    storage_.LoseMachine(checkpoint::JobDirectory(kCheckpointPath));
  }
  has_crashed_ = false;
  is_between_runs_ = true;
  is_stopped_ = false;
  is_ending_ = false;
  ++resumes_;
  queue_.After(std::chrono::milliseconds(random_.Below(kResumeMsMax)), [this] { Resume(); });
}

/// As psctl does it.
void Cluster::Resume() {
  Result<FoundCheckpoint> found = FindNewestCheckpoint(storage_, kCheckpointPath);
  if (found.status().code() == StatusCode::kNotFound) {
    log_.Info("not_resumed", {{"why", found.status()}});
    is_between_runs_ = false;
    is_given_up_ = true;
    if (!faults_.has_damaged()) {
      violations_.push_back("a run can't be resumed: " + found.status().ToString());
    }
    return;
  }
  Status status = found.status();
  if (status.ok()) {
    const auto saved = proto::DecodeJobState(found->manifest.job_state);
    PS_CHECK(saved.ok()) << saved.status();
    resumed_ = std::move(found).value();
    oracle_.OnResume(resumed_->manifest.id, *saved);
    log_.Info("resumed", {{"checkpoint", resumed_->manifest.id}});
    is_resuming_ = true;
    status = coordinator_.BeginRun();
    is_resuming_ = false;
  }
  if (!status.ok()) {
    queue_.After(kResumeAgain, [this] { Resume(); });
    return;
  }
  is_between_runs_ = false;
}

void Cluster::AfterCoordinatorEvent() {
  const proto::JobState& job = coordinator_.core().state();
  oracle_.AfterCoordinatorEvent(job, saboteur_.Undone(job.checkpoints.steps_undone));
}

void Cluster::EndProcess() {
  if (disk_ != nullptr) {
    disk_->Close();
  }
}

void Cluster::Stop(bool is_immediate) {
  if (is_between_runs_) {
    return;
  }
  is_stopped_ = true;
  coordinator_.RequestStop(is_immediate, "stopped by request");
}

/// Before the first lease, and when the outcome is known, nobody brings a server back.
bool Cluster::CanLoseServers() const {
  return scenario_.has_checkpoints() && oracle_.has_steps() && !coordinator_.core().is_ending();
}

/// A server whose loss nobody knows of then is not brought back, and its part of the model is left
/// in checkpoints alone.
void Cluster::NoteEnding() {
  if (!is_ending_ && coordinator_.core().is_ending()) {
    is_ending_ = true;
    has_all_servers_ = servers_.AreAllThere();
  }
}

proto::JobState Cluster::StateNow() const {
  return coordinator_.core().StateAt(coordinator_.Now());
}

bool Cluster::Damage(const std::string& directory) {
  if (!storage_.FlipBit(directory, &random_)) {
    return false;
  }
  auditor_.NoteDamage(directory);
  return true;
}

void Cluster::OnSend(const Network::Passage& passage, const proto::Message& message) {
  if (servers_.Find(passage.from) != nullptr) {
    // Judged when the delivery that caused it has been taken into account. A worker connects to a
    // shard for one incarnation, and may have a newer one by now.
    const Incarnation to = passage.hello.incarnation;
    if (const auto* push = std::get_if<proto::PushReply>(&message)) {
      answers_.emplace_back(
          [this, node = passage.from, to, reply = *push] { oracle_.OnPushReply(node, to, reply); });
    } else if (const auto* pull = std::get_if<proto::PullReply>(&message);
               pull != nullptr && passage.to != node_) {
      // Its values may lie where they are until the shard changes them, in the same delivery.
      answers_.emplace_back([this, node = passage.from, to, reply = OwnCopyOf(*pull)] {
        oracle_.OnPullReply(node, to, reply);
      });
    } else if (const auto* offer = std::get_if<proto::ChunksOffer>(&message)) {
      oracle_.OnOfferSent(passage.from, passage.request_id, *offer);
    }
  }
  if (const auto* commit = std::get_if<proto::CommitRound>(&message)) {
    oracle_.OnCommitSent(*commit, coordinator_.core().state());
  }
  faults_.OnMessage(passage.from, true, passage.end, message);
}

void Cluster::BeforeDelivery(const Network::Passage& passage, const proto::Message& message) {
  faults_.OnMessage(passage.to, false, passage.end, message);
  if (const auto* grant = std::get_if<proto::LeaseGrant>(&message); grant != nullptr) {
    oracle_.OnGrant(*grant);
  }
  if (servers_.Find(passage.to) == nullptr) {
    return;
  }
  const bool is_of_worker = passage.from != node_;
  if (const auto* push = std::get_if<proto::PushRequest>(&message)) {
    oracle_.BeforePush(passage.to, *push);
  } else if (const auto* pull = std::get_if<proto::PullRequest>(&message);
             pull != nullptr && is_of_worker) {
    oracle_.OnPullRequest(passage.to, *pull);
  } else if (std::holds_alternative<proto::CommitRound>(message)) {
    oracle_.BeforeCommit(passage.to);
  } else if (const auto* membership = std::get_if<proto::Membership>(&message)) {
    oracle_.OnMembership(passage.to, *membership);
  } else if (const auto* setup = std::get_if<proto::ShardSetup>(&message)) {
    oracle_.OnSetup(passage.to, *setup);
  } else if (std::holds_alternative<proto::ChunksOffer>(message)) {
    oracle_.OnOffer(passage.to, passage.from, passage.request_id);
  }
}

void Cluster::AfterDelivery(const Network::Passage& passage, const proto::Message& message) {
  if (servers_.Find(passage.to) != nullptr) {
    if (const auto* push = std::get_if<proto::PushRequest>(&message)) {
      oracle_.AfterPush(passage.to, *push);
    } else if (const auto* commit = std::get_if<proto::CommitRound>(&message)) {
      oracle_.AfterCommit(passage.to, *commit);
    } else {
      oracle_.NoteChunks(passage.to);
    }
  } else if (passage.to == node_) {
    if (const Status check = coordinator_.core().Check(); !check.ok()) {
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

/// A run that is done has left its model, as the shards had it.
void Cluster::CheckModel() {
  const proto::JobStatus status = coordinator_.core().StatusAt(coordinator_.Now());
  if (status.model_file.empty()) {
    // Once training is over nobody takes the place of a server that stands still.
    const Duration detect = proto::Timing::Of(SimulatedJob(scenario_)).server_detect;
    const bool has_stalled = faults_.stalled_until() > queue_.Now() - detect;
    const bool may_be_lost = faults_.may_lose_server() || faults_.has_damaged() || has_stalled;
    if (!may_be_lost && !is_stopped_ && has_all_servers_) {
      violations_.push_back("no model was left: " + status.model_problem);
    }
  } else if (!sink_file_.IsWhole()) {
    violations_.push_back("elements of the model's file were not written, or twice");
  } else {
    oracle_.CheckModel(sink_file_.tensors(), is_stopped_);
  }
}

/// Ticks of a process for as long as the run lasts.
void Cluster::Repeat(int node, const std::function<void()>& tick) {
  network_.WhenAwake(node, [this, node, tick] {
    tick();
    queue_.After(proto::Timing::FromMaxDetect(kSimulatedMaxDetect).tick, [this, node, tick] {
      Repeat(node, tick);
    });
  });
}

bool Cluster::IsOver(TimePoint begin) const {
  if (is_between_runs_) {
    return false;
  }
  return has_crashed_ || is_given_up_ || coordinator_.core().is_finished() ||
         coordinator_.is_refused() || queue_.Now() - begin >= scenario_.time_limit ||
         !oracle_.violations().empty() || !violations_.empty();
}

/// Losing a server ends the run, and so does a beginning without workers. That is right when one
/// was silent for long, or when no checkpoint is whole.
bool Cluster::IsExcused() const {
  const StatusCode code = coordinator_.core().outcome().code();
  return (faults_.may_lose_server() && code == StatusCode::kUnavailable) ||
         (faults_.may_lack_workers() && code == StatusCode::kDeadlineExceeded) ||
         (faults_.has_damaged() && code == StatusCode::kCorruption);
}

/// As it was asked to be.
bool Cluster::IsStopped() const {
  return is_stopped_ && coordinator_.core().outcome().code() == StatusCode::kCancelled;
}

/// Of a run that has ended as it should.
void Cluster::CheckEnd() {
  if (!coordinator_.core().outcome().ok() && !IsStopped()) {
    return;
  }
  proto::JobState state = StateNow();
  if (scenario_.sabotage == Sabotage::kHiddenLoss) {
    state.checkpoints.steps_undone = 0;
  }
  oracle_.CheckFinalState(state, IsStopped());
  CheckModel();
}

Outcome Cluster::Run() {
  const TimePoint begin = queue_.Now();
  coordinator_.Start();
  Repeat(node_, [this] { coordinator_.Tick(); });
  faults_.Begin();
  while (true) {
    while (!IsOver(begin) && queue_.RunOne()) {
      NoteEnding();
    }
    if (!MayResume()) {
      break;
    }
    EndRun();
  }
  Outcome outcome;
  outcome.is_finished = coordinator_.core().is_finished() || coordinator_.is_refused();
  outcome.status = coordinator_.core().outcome();
  outcome.is_excused = outcome.is_finished && IsExcused();
  if (coordinator_.is_refused() || is_given_up_) {
    outcome.is_finished = true;
    outcome.is_excused = true;
  } else if (outcome.is_finished) {
    outcome.is_excused = outcome.is_excused || IsStopped();
    CheckEnd();
  }
  outcome.model = sink_file_.tensors();
  if (!coordinator_.is_refused() && !is_given_up_) {
    outcome.job = coordinator_.core().StatusAt(coordinator_.Now());
  }
  if (scenario_.is_gentle() &&
      outcome.job.revocations_unnoticed + outcome.job.revocations_noticed > 0) {
    violations_.push_back("a worker was lost although nothing had happened to it");
  }
  outcome.violations = violations_;
  outcome.violations.insert(
      outcome.violations.end(), oracle_.violations().begin(), oracle_.violations().end());
  outcome.trace_hash = network_.trace_hash();
  outcome.delivered = network_.delivered();
  outcome.pushes_checked = oracle_.pushes_checked();
  outcome.hand_overs = oracle_.hand_overs();
  outcome.virtual_time = queue_.Now() - begin;
  outcome.log = sink_.text();
  return outcome;
}

}  // namespace

Outcome Simulate(const Scenario& scenario) {
  Cluster cluster(scenario);
  return cluster.Run();
}

}  // namespace ps::sim
