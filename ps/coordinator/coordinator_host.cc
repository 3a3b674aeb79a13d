#include "ps/coordinator/coordinator_host.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "checkpoint/remote/place.h"
#include "ps/process/process_end.h"

namespace ps::coordinator {
namespace {

/// How exactly the moment at which a limit is reached is known.
constexpr Duration kCheckLimits = std::chrono::milliseconds(50);
/// The smoothed loss of fewer steps says too little to end a job for.
constexpr uint64_t kLossSteps = 20;
/// A control connection is one question and its answer. Silent ones must not pile up.
constexpr Duration kControlTime = std::chrono::seconds(5);
/// A disk that gives no answer, or the place of copies, holds up the end of the process for so
/// long.
constexpr Duration kDiskEnds = std::chrono::seconds(10);
/// So does a policy that thinks; then it is left to itself.
constexpr Duration kPolicyEnds = std::chrono::seconds(2);
/// A status has a row for each worker: of many, it is taken the less often.
constexpr Duration kLookPerWorker = std::chrono::milliseconds(2);

net::EndpointOptions EndpointOptionsOf(const CoordinatorHost::Options& options) {
  net::EndpointOptions endpoint;
  endpoint.node = "coordinator";
  endpoint.token = options.token;
  endpoint.tls = options.tls;
  endpoint.admit = options.admit;
  // Load counts one more.
  endpoint.term =
      options.recovered ? CoordinatorCore::TermOf(options.recovered->state) + 1 : proto::Term{1};
  endpoint.roles = {proto::Role::kWorker, proto::Role::kShard};
  endpoint.file_roles = {proto::Role::kControl};
  endpoint.seed = options.job.config.train.seed;
  if (options.recovered) {
    for (const proto::ShardRecord& shard : options.recovered->state.shards) {
      endpoint.known_addresses.push_back(shard.host);  // a name does no harm
    }
  }
  return endpoint;
}

}  // namespace

CoordinatorHost::CoordinatorHost(Options options, const Logger* log)
    : options_(std::move(options)),
      log_(log),
      timing_(proto::Timing::Of(options_.job.config)),
      endpoint_(&loop_, EndpointOptionsOf(options_), log, this),
      own_calls_(&endpoint_),
      held_(&own_calls_, this) {}

CoordinatorHost::~CoordinatorHost() = default;

Result<uint32_t> CoordinatorHost::Listen() {
  const proto::RunConfig& run = options_.job.config.run;
  if (!options_.job.config.model.from.empty()) {
    PS_ASSIGN(model_source_, ModelFileSource::Open(options_.job.config, options_.job.tensors));
  }
  PS_TRY(MakeCore());
  PS_ASSIGN(
      const uint32_t port,
      endpoint_.Listen(run.listen, options_.recovered ? options_.recovered->port : run.port)
          .Annotate("run.listen and run.port"));
  if (options_.recovered) {
    ::unlink(options_.control_path.c_str());  // the journal's lock says that its maker is gone
  }
  const Status control = endpoint_.ListenAtFile(options_.control_path);
  if (!control.ok()) {
    return Status(
        control.code(),
        std::string(control.message()) +
            "; choose a place on a local file system with --set run.directory=DIR (not every "
            "network or shared one holds sockets)");
  }
  if (options_.journal != nullptr) {
    options_.journal->NotePort(port);
  }
  return port;
}

Status CoordinatorHost::MakeCore() {
  CoordinatorOptions job = options_.job;
  if (!options_.model_path.empty()) {
    model_sink_ = std::make_unique<ModelFileSink>(
        options_.model_path, job.tensors, options_.frozen_path, options_.model_metadata);
  }
  job.model_source = model_source_.get();
  job.model_sink = model_sink_.get();
  job.journal = options_.journal;
  if (options_.store != nullptr) {
    disk_ = std::make_unique<JobDisk>(std::move(options_.store), DiskAnswers());
    job.manifests = disk_.get();
  }
  if (!options_.recovered) {
    core_ = std::make_unique<CoordinatorCore>(std::move(job), &held_, log_);
    return Status::Ok();
  }
  proto::JobState state = options_.recovered->state;
  TakeCheckpointsOf(options_.job, &state);
  PS_ASSIGN(
      core_,
      CoordinatorCore::Load(std::move(state), std::move(job), &held_, log_, Now())
          .Annotate("the journal"));
  return Status::Ok();
}

void CoordinatorHost::Run(Owner owner) {
  owner_ = std::move(owner);
  if (disk_ != nullptr && !options_.job.config.checkpoint.copy_to.empty()) {
    StartCopier();
  }
  log_->Info(
      "job_begins",
      {{"job", options_.job.config.name},
       {"max_detect_s", Seconds(timing_.detect)},
       {"heartbeat_s", Seconds(timing_.heartbeat)},
       {"lease_s", Seconds(timing_.lease)},
       {"retry_first_s", Seconds(timing_.retry_first)},
       {"retry_limit_s", Seconds(timing_.retry_limit)},
       {"connect_timeout_s", Seconds(timing_.connect_timeout)}});
  loop_.RunEvery(timing_.tick, [this] { Tick(); });
  loop_.RunEvery(kCheckLimits, [this] { CheckLimits(); });
  if (options_.recovered) {
    core_->StartMissing(options_.recovered->launches, Now());
  } else {
    core_->Start(Now());
  }
  Commit();
  if (owner_.policy != nullptr) {
    StartPolicy();
  }
  loop_.Run();
  if (policy_ != nullptr && !policy_->EndWithin(kPolicyEnds)) {
    log_->Warning("end_without_policy", {{"waited_s", Seconds(kPolicyEnds)}});
  }
  policy_.reset();
  const bool has_disk_ended = disk_ == nullptr || disk_->EndWithin(kDiskEnds);
  const bool has_copier_ended = copier_ == nullptr || copier_->EndWithin(kDiskEnds);
  if (!has_disk_ended || !has_copier_ended) {
    proto::LogEvent(
        *log_,
        proto::EventCode::kEndWithoutAnswer,
        {{"of", has_disk_ended ? "checkpoint.copy_to" : "checkpoint.path"},
         {"waited_s", Seconds(kDiskEnds)}});
    EndWithoutCleanup();
  }
  disk_.reset();
  copier_.reset();
}

void CoordinatorHost::Commit() {
  core_->StampEvents(static_cast<double>(SystemTime().UnixMicros()) / 1e6);
  if (JobJournal* const journal = options_.journal; journal != nullptr) {
    const TimePoint now = Now();
    const uint64_t failures = journal->failures();
    journal->Write(core_->TakeRows(now, journal->WantsAll(now)), now);
    if (failures == 0 && journal->failures() > 0) {
      core_->Tell(
          proto::EventCode::kJournalFailed,
          {{"why", journal->trouble()},
           {"meaning",
            "the run goes on; if its coordinator ends before there is room, it goes on from its "
            "newest checkpoint"},
           {"remedy", "make room on the disk of the run directory"}});
    }
  }
  held_.Release();
  TellEvents();
}

void CoordinatorHost::TellEvents() {
  const std::deque<proto::EventRow>& events = core_->state().events.last;
  if (owner_.on_event == nullptr || events.empty()) {
    return;
  }
  // From the first that the owner does not know: those without a time are for the next commit.
  const uint64_t known = std::max(told_ + 1, events.front().number);
  for (size_t i = known - events.front().number; i < events.size() && events[i].unix_s > 0; ++i) {
    told_ = events[i].number;
    owner_.on_event(events[i]);
  }
}

/// They are called on the disk's thread.
JobDisk::Answers CoordinatorHost::DiskAnswers() {
  JobDisk::Answers answers;
  answers.written = [this](uint64_t checkpoint, const Status& status) {
    return loop_
        .Post([this, checkpoint, status] {
          core_->OnManifestWritten(checkpoint, status, Now(), &held_);
          Commit();
          if (copier_ != nullptr && status.ok()) {
            copier_->Poke();
          }
        })
        .ok();
  };
  answers.read = [this](uint64_t checkpoint, const JobDisk::ManifestRead& manifest) {
    return loop_
        .Post([this, checkpoint, manifest] {
          core_->OnManifestRead(checkpoint, *manifest, Now(), &held_);
          Commit();
        })
        .ok();
  };
  return answers;
}

void CoordinatorHost::StartPolicy() {
  asker_ = owner_.policy->asker();
  look_every_ = FromSeconds(owner_.policy->look_every_s());
  policy_ = std::make_unique<PolicyThread>(
      std::move(owner_.policy), [this](const proto::FleetDecision& decision) {
        loop_.Post([this, decision] { OnDecision(decision); }).Ignore("nobody is asked again");
      });
  AskPolicyAfter(look_every_);
}

void CoordinatorHost::AskPolicyAfter(Duration pause) {
  loop_.RunAfter(pause, [this] {
    if (!is_stopping_ && !core_->is_ending()) {
      proto::PolicyView view = {
          .status = StatusNow(), .memory = core_->state().policy, .was_refused = was_refused_};
      if (owner_.prices != nullptr) {
        view.prices = owner_.prices();
      }
      policy_->Ask(std::move(view));
    }
  });
}

void CoordinatorHost::OnDecision(const proto::FleetDecision& decision) {
  if (is_stopping_ || core_->is_ending()) {
    return;
  }
  const Status taken = core_->OnDecision(asker_, decision, Now(), &held_);
  Commit();
  was_refused_ = !taken.ok();
  const std::string name(AskerName(asker_));
  if (owner_.on_decision != nullptr && !decision.why.empty()) {
    owner_.on_decision(name + ": " + decision.why);
  }
  if (owner_.on_decision != nullptr && was_refused_) {
    owner_.on_decision("the " + name + "'s fleet was refused: " + std::string(taken.message()));
  }
  const auto workers = static_cast<Duration::rep>(core_->member_count());
  AskPolicyAfter(
      decision.wants_newer_view ? Duration::zero() : look_every_ + workers * kLookPerWorker);
}

void CoordinatorHost::StartCopier() {
  const proto::CheckpointConfig& config = options_.job.config.checkpoint;
  proto::CopyStatus nothing_yet;
  nothing_yet.target = config.copy_to;
  core_->NoteCopies(std::move(nothing_yet));
  checkpoint::Copier::Options options;
  options.path = config.path;
  options.writer = checkpoint::MakeWriterName();
  options.keep = config.keep;
  options.open = [place = config.copy_to](store::Pause pause, IsCancelled is_cancelled) {
    return checkpoint::OpenObjectStore(
        place, ProcessEnvironment(), std::move(pause), std::move(is_cancelled));
  };
  options.told = [this](const checkpoint::CopyState& state) {
    loop_.Post([this, state] { OnCopied(state); }).Ignore("the next attempt tells all of it");
  };
  copier_ = std::make_unique<checkpoint::Copier>(std::move(options));
  if (!options_.job.checkpoints.empty()) {
    copier_->Poke();  // the coordinator before this one may have ended during a copy
  }
}

void CoordinatorHost::OnCopied(const checkpoint::CopyState& state) {
  if (!state.trouble.empty()) {
    core_->Tell(
        proto::EventCode::kCopyFailed, {{"failures", state.failed}, {"why", state.trouble}});
  } else {
    log_->Info("copied", {{"newest", state.newest}, {"sent_bytes", state.sent_bytes}});
  }
  core_->NoteCopies(
      {.target = options_.job.config.checkpoint.copy_to,
       .newest = state.newest,
       .copied = state.copied,
       .failed = state.failed,
       .sent_bytes = state.sent_bytes,
       .trouble = state.trouble});
}

/// Said once when it is only they that are waited for.
bool CoordinatorHost::AreCopiesMade() {
  if (copier_ == nullptr || copier_->is_idle()) {
    return true;
  }
  if (!has_said_wait_ && owner_.on_wait != nullptr) {
    has_said_wait_ = true;
    owner_.on_wait(
        "the last checkpoint is being copied to " + options_.job.config.checkpoint.copy_to);
  }
  return false;
}

void CoordinatorHost::RequestStop(const std::string& why, bool is_evaluated) {
  if (!is_stopping_) {
    is_stopping_ = true;
    core_->RequestStop(false, why, Now(), &held_);
    if (!is_evaluated) {  // the second request gives the evaluation up
      core_->RequestStop(false, why, Now(), &held_);
    }
    Commit();
  }
}

void CoordinatorHost::EndAtOnce(const std::string& why) {
  is_stopping_ = true;
  core_->RequestStop(true, why, Now(), &held_);
  Commit();
  loop_.Stop();
}

proto::Message CoordinatorHost::Ask(proto::Message request) {
  proto::Message answer = proto::Refusal{
      .code = StatusCode::kUnavailable, .message = "the coordinator has no answer to that now"};
  proto::Hello hello;
  hello.role = proto::Role::kControl;
  hello.node = proto::AskerName(proto::Asker::kPerson);
  const proto::PeerId peer =
      own_calls_.Open([&answer](proto::Message reply) { answer = std::move(reply); });
  core_->OnPeerConnected(peer, hello, Now(), &held_);
  core_->OnMessage(peer, 1, std::move(request), Now(), &held_);
  Commit();
  own_calls_.Close(peer);
  core_->OnPeerClosed(peer, Now(), &held_);
  Commit();
  return answer;
}

Result<uint64_t> CoordinatorHost::CheckpointNow() {
  const Result<uint64_t> begun = core_->CheckpointNow(Now(), &held_);
  Commit();
  return begun;
}

void CoordinatorHost::OnProcessExited(const proto::ProcessEnd& end) {
  core_->OnProcessExited(end, Now(), &held_);
  Commit();
}

void CoordinatorHost::OnConnected(proto::PeerId peer, const proto::Hello& hello) {
  if (hello.role == proto::Role::kControl) {
    endpoint_.CloseAfter(peer, kControlTime);
  }
  core_->OnPeerConnected(peer, hello, Now(), &held_);
  if (core_->is_outranked()) {
    loop_.Stop();
    return;
  }
  Commit();
}

void CoordinatorHost::OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) {
  core_->OnMessage(peer, request_id, std::move(message), Now(), &held_);
  Commit();
}

void CoordinatorHost::OnClosed(proto::PeerId peer, const Status& /*why*/) {
  core_->OnPeerClosed(peer, Now(), &held_);
  Commit();
}

void CoordinatorHost::OnDrained(proto::PeerId peer) {
  core_->OnDrained(peer, Now(), &held_);
  Commit();
}

void CoordinatorHost::Tick() {
  if (endpoint_.turned_away() != std::exchange(turned_away_, endpoint_.turned_away())) {
    core_->NoteCrowd(Now());
  }
  core_->OnTick(Now(), &held_);
  Commit();
  if (core_->is_finished() && !is_closing_ && owner_.may_close() && AreCopiesMade()) {
    is_closing_ = true;
    endpoint_.CloseAll([this] { loop_.Stop(); });
  }
}

/// Ends the job when it has come as far as the config asks for.
void CoordinatorHost::CheckLimits() {
  const proto::RunConfig& run = options_.job.config.run;
  if (is_stopping_ || core_->is_finished() || (run.seconds_max <= 0 && run.stop_at_loss <= 0)) {
    return;
  }
  const proto::JobStatus status = core_->TotalsAt(Now());
  const bool is_time_over = run.seconds_max > 0 && status.elapsed_s >= run.seconds_max;
  const bool is_loss_reached = run.stop_at_loss > 0 && status.steps_counted >= kLossSteps &&
                               status.train_loss <= run.stop_at_loss;
  if (!is_time_over && !is_loss_reached) {
    return;
  }
  limit_reached_ = {is_loss_reached, status.elapsed_s, status.steps_counted};
  log_->Info("enough", {{"elapsed_s", status.elapsed_s}, {"train_loss", status.train_loss}});
  const std::string why =
      is_loss_reached ? "the training loss is down to run.stop_at_loss" : "run.seconds_max is over";
  owner_.on_limit(why);
  RequestStop(why);
}

}  // namespace ps::coordinator
