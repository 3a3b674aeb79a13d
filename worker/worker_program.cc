#include "worker/worker_program.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <limits>

#include "ps/crypto/certificates.h"
#include "ps/net/addresses.h"
#include "ps/proto/exchange.h"
#include "ps/proto/job/device_choice.h"
#include "worker/trainer.h"

namespace ps::worker {
namespace {

/// Until the job's own is known.
constexpr Duration kFirstMaxDetect = std::chrono::seconds(3);
/// The core decides when to give up, the transport does not.
constexpr uint32_t kEndless = std::numeric_limits<uint32_t>::max();
constexpr Duration kLoadingToldEvery = std::chrono::seconds(10);

std::string NameOf(WorkerId seat) {
  return fmt::format("w{}", seat.value);
}

}  // namespace

WorkerProgram::WorkerProgram(Options options, const Logger* log)
    : options_(std::move(options)),
      log_(log),
      signals_(options_.notices.term_grace, &SystemTime()),
      timing_(proto::Timing::FromMaxDetect(kFirstMaxDetect)) {
  name_ = options_.join.has_seat ? NameOf(options_.join.seat) : "worker";
  const auto seed = static_cast<uint64_t>(options_.join.pid);
  core_ = std::make_unique<client::WorkerCore>(
      client::WorkerCore::Options{options_.join, timing_, seed}, this, log);
  net::EndpointOptions endpoint_options;
  endpoint_options.node = name_;
  endpoint_options.token = options_.token;
  endpoint_options.tls = options_.tls;
  endpoint_options.seed = seed;
  endpoint_options.emulated_link = emulation::MakeLink(options_.emulation.link_bytes_per_s);
  endpoint_ = std::make_unique<net::Endpoint>(&loop_, std::move(endpoint_options), log, this);
  if (options_.probe_after) {
    link_probe_.emplace(endpoint_.get(), &SystemTime(), *options_.probe_after);
  }
  compute_ = std::make_unique<ComputeThread>(
      &loop_,
      ComputeThread::Callbacks{
          [this](uint64_t session, uint32_t tensor) {
            core_->OnTensorReady(session, tensor, SystemTime().Now(), outbox());
          },
          [this](uint64_t session, uint32_t samples) { core_->OnLocalStep(session, samples); },
          [this](const client::ComputeTask& task, const client::ComputeResult& result) {
            OnComputeDone(task, result);
          },
          [this](const Status& why) { OnComputeFailed(why); }});
  loader_ = std::make_unique<Loader>(&loop_, options_.make_trainer, [this] {
    log_->Info("loaded", {{"seconds", Seconds(SystemTime().Now() - loading_since_)}});
    core_->OnLoaded(SystemTime().Now(), outbox());
  });
}

WorkerProgram::~WorkerProgram() {
  loader_->Stop();
  compute_->Stop();
}

Status WorkerProgram::Run() {
  PS_TRY(WatchForNotices());
  StartTicking(timing_);
  core_->Start(SystemTime().Now());
  loop_.Run();
  watchers_.clear();
  loader_->Stop();
  compute_->Stop();
  if (trainer_ != nullptr) {
    const Prefetcher::Figures& data = trainer_->data_figures();
    log_->Info(
        "data_figures",
        {{"minibatches", data.batches},
         {"fetched_ahead", data.foreseen},
         {"waited_s", data.waited_s}});
    TellProbes();
  }
  return exit_status_;
}

/// For whoever started the worker: psctl/probe_log reads it.
void WorkerProgram::TellProbes() const {
  if (!link_probe_) {
    return;
  }
  const StepProbe::Figures step = compute_->probe().figures();
  for (size_t i = 0; i < step.ready.size(); ++i) {
    const auto elements = static_cast<size_t>(settings_.tensor_elements[i]);
    const uint64_t bytes = settings_.tensor_encodings[i].SizeOf(elements);
    log_->Info("probe_tensor", {{"tensor", i}, {"bytes", bytes}, {"ready", step.ready[i]}});
  }
  log_->Info(
      "probe_step",
      {{"minibatch", step.samples},
       {"steps", step.steps},
       {"forward_s", step.forward_s},
       {"backward_s", step.backward_s}});
  const LinkProbe::Figures link = link_probe_->figures();
  log_->Info(
      "probe_link",
      {{"exchanges", link.exchanges},
       {"push_bytes_per_s", link.push_bytes_per_s},
       {"pull_bytes_per_s", link.pull_bytes_per_s},
       {"round_trip_s", link.round_trip_s}});
}

void WorkerProgram::StartTicking(const proto::Timing& timing) {
  timing_ = timing;
  loop_.Cancel(tick_timer_);
  tick_timer_ = loop_.RunEvery(timing.tick, [this] {
    core_->OnTick(SystemTime().Now(), outbox());
    LogLoading();
  });
}

void WorkerProgram::LogLoading() {
  const TimePoint now = SystemTime().Now();
  if (loader_->is_loading() && now - loading_told_ >= kLoadingToldEvery) {
    loading_told_ = now;
    log_->Info("loading", {{"what", LoadingText()}, {"seconds", Seconds(now - loading_since_)}});
  }
}

std::string WorkerProgram::LoadingText() const {
  return loader_->is_loading()
             ? fmt::format("{}, {:.0f} %", data_directory_, 100 * loader_->share())
             : data_directory_;
}

Status WorkerProgram::WatchForNotices() {
  PS_TRY(loop_.OnSignal({SIGTERM, SIGINT}, [this](int signal) {
    signals_.Note(signal);
    if (const auto notice = signals_.Ask(); notice.ok() && *notice) {
      OnNotice(**notice);
    }
  }));
  notice::NoticeWatcher::Callbacks callbacks;
  callbacks.on_notice = [this](const notice::ProviderNotice& notice) {
    loop_.Post([this, notice] { OnNotice(notice); })
        .Ignore("a worker whose mailbox is full is lost with its machine, as without a notice");
  };
  callbacks.on_risk = [this](bool is_at_risk) {
    loop_.Post([this, is_at_risk] { core_->OnRisk(is_at_risk); })
        .Ignore("a worker whose mailbox is full is replaced when its notice comes");
  };
  watchers_ = notice::WatchAll(options_.notices, callbacks, log_);
  return Status::Ok();
}

void WorkerProgram::OnNotice(const notice::ProviderNotice& notice) {
  const TimePoint now = SystemTime().Now();
  core_->OnNotice(now + notice.grace, notice.what, now, outbox());
}

proto::Hello WorkerProgram::MakeHello(Incarnation incarnation) const {
  return {proto::Role::kWorker, options_.token, name_, incarnation, core_->term()};
}

void WorkerProgram::Name(WorkerId seat) {
  name_ = NameOf(seat);
  if (options_.on_named) {
    options_.on_named(name_);
  }
}

/// Loads once for each config. What is being loaded when another one is asked for is waited for.
Result<std::optional<proto::Timing>> WorkerProgram::Load(const proto::JoinReply& reply) {
  Name(reply.worker);
  if (loader_->is_loading()) {
    return std::optional(timing_);
  }
  PS_TRY(ChooseDevice(reply));
  const bool is_here = reply.config_json == config_json_ || reply.config_json == loaded_json_;
  if (is_here) {
    return std::optional<proto::Timing>();
  }
  PS_ASSIGN(
      const proto::JobConfig config,
      proto::ParseJobConfig(reply.config_json, "the coordinator's config"));
  loader_->Take().status().Ignore("it is of a config that is not asked for any more");
  loaded_json_ = reply.config_json;
  data_directory_ = config.data.directory;
  loading_since_ = SystemTime().Now();
  loading_told_ = loading_since_;
  loader_->Start(config, device_.backends);
  StartTicking(proto::Timing::Of(config));
  return std::optional(timing_);
}

Result<client::WorkerSettings> WorkerProgram::Configure(const proto::JoinReply& reply) {
  compute_->Settle();  // the tensors go, and the trainer may
  if (reply.config_json != config_json_) {
    PS_ASSIGN(
        const proto::JobConfig config,
        proto::ParseJobConfig(reply.config_json, "the coordinator's config"));
    PS_TRY(TakeTrainer(config));
    config_json_ = reply.config_json;
  }
  compute_->SetDevice(
      options_.threads == 0 ? static_cast<int>(reply.threads) : options_.threads,
      emulation::MakeDevice(reply.slowdown, options_.emulation.step_least));
  StartTicking(settings_.timing);
  return settings_;
}

/// What a flag, else the job says of the seat. It is looked for once, unless the job says another.
Status WorkerProgram::ChooseDevice(const proto::JoinReply& reply) {
  const std::string& wanted = options_.device.empty() ? reply.device : options_.device;
  PS_ASSIGN(const proto::DeviceChoice choice, proto::ParseDevice(wanted));
  if (device_choice_ == choice) {
    return Status::Ok();
  }
  PS_ASSIGN(device_, options_.open_device(choice, reply.worker));
  device_choice_ = choice;
  config_json_.clear();  // its trainer is of the old device
  loaded_json_.clear();
  settings_.device = device_.name;
  for (const auto& backend : device_.backends) {
    log_->Info("device", {{"name", backend->Name()}});
  }
  if (!device_.note.empty()) {
    Warn("device_fallback", device_.note);
  }
  return Status::Ok();
}

Status WorkerProgram::TakeTrainer(const proto::JobConfig& config) {
  loaded_json_.clear();
  PS_ASSIGN(std::unique_ptr<Trainer> trainer, loader_->Take());
  settings_.overlap = config.train.overlap;
  settings_.frame_bytes = size_t{config.servers.frame_kib} << 10;
  settings_.timing = proto::Timing::Of(config);
  settings_.tensor_elements = trainer->TensorElements();
  settings_.tensor_encodings = trainer->TensorEncodings();
  settings_.tensor_rules = trainer->TensorRules();
  settings_.steps = proto::StepSettingsOf(config);
  is_encoding_ = !proto::IsEncodedByDevice(config);
  has_error_feedback_ = proto::HasErrorFeedback(config);
  settings_.data = trainer->data();
  uint64_t model_bytes = 0;
  for (const int64_t elements : settings_.tensor_elements) {
    model_bytes += static_cast<uint64_t>(elements) * sizeof(float);
  }
  // A whole gradient may wait for a slow network, and be repeated once.
  endpoint_->SetQueueBytesMax(
      std::max<uint64_t>(uint64_t{config.servers.queue_mib} << 20, 2 * model_bytes));
  trainer_ = trainer.get();
  compute_->SetTrainer(std::move(trainer));
  if (options_.probe_after) {
    compute_->SetProbe(StepProbe(settings_.tensor_elements.size(), *options_.probe_after));
  }
  return Status::Ok();
}

void WorkerProgram::ConnectCoordinator(Incarnation incarnation) {
  if (incarnation == Incarnation()) {
    GiveUpShards();  // a new session
  }
  endpoint_->CancelConnect(coordinator_connect_);
  if (coordinator_ != proto::PeerId()) {
    endpoint_->Close(coordinator_);
    coordinator_ = proto::PeerId();
  }
  coordinator_connect_ = endpoint_->Connect(
      options_.coordinator_host,
      options_.coordinator_port,
      MakeHello(incarnation),
      [this](const Result<proto::PeerId>& peer) {
        if (!peer.ok()) {
          Exit(Status(peer.status()).Annotate("connect to the coordinator"));
          return;
        }
        coordinator_ = *peer;
        core_->OnCoordinatorConnected(
            *peer, endpoint_->TermOf(*peer), SystemTime().Now(), outbox());
      },
      RetryOf(
          crypto::kCoordinatorRole,
          "the coordinator",
          options_.coordinator_host,
          options_.coordinator_port));
}

net::RetryPolicy WorkerProgram::RetryOf(
    std::string_view role, const std::string& what, const std::string& host, uint32_t port) const {
  net::RetryPolicy retry = net::RetryPolicy::FromTiming(timing_, kEndless);
  retry.peer_roles = {std::string(role)};
  retry.on_trouble = [this, what, host, port](const Status& why) {
    Warn("unreachable", net::UnreachableText(what, host, port, why));
  };
  return retry;
}

void WorkerProgram::GiveUpShards() {
  for (const auto& [shard, connect] : shard_connects_) {
    endpoint_->CancelConnect(connect);
  }
  shard_connects_.clear();
  for (const auto& [peer, shard] : shards_) {
    endpoint_->Close(peer);
  }
}

void WorkerProgram::ConnectShard(const proto::ShardAddress& address, Incarnation incarnation) {
  net::ConnectId& connect = shard_connects_[address.shard];
  endpoint_->CancelConnect(connect);
  connect = endpoint_->Connect(
      address.host,
      address.port,
      MakeHello(incarnation),
      [this, address, incarnation](const Result<proto::PeerId>& peer) {
        if (!peer.ok()) {
          Exit(Status(peer.status())
                   .Annotate(fmt::format("connect to shard {}", address.shard.value)));
          return;
        }
        shards_[*peer] = {address, incarnation};
        core_->OnShardConnected(address.shard, *peer, SystemTime().Now(), outbox());
      },
      RetryOf(
          crypto::kServerRole,
          fmt::format("shard {}", address.shard.value),
          address.host,
          address.port));
}

void WorkerProgram::ForgetShard(ShardId shard) {
  if (const auto connect = shard_connects_.find(shard); connect != shard_connects_.end()) {
    endpoint_->CancelConnect(connect->second);
    shard_connects_.erase(connect);
  }
  std::erase_if(shards_, [&](const auto& entry) { return entry.second.first.shard == shard; });
}

void WorkerProgram::Warn(const char* event, const std::string& text) const {
  log_->Warning(event, {{"why", text}});
  std::fprintf(stderr, "ps_worker: %s\n", text.c_str());
}

Status WorkerProgram::Prepare(const client::ChunkLayout& layout, size_t gradients) {
  tensors_.reset();  // there may not be room for both
  const auto make = [this](size_t size_bytes) { return trainer_->MakeBuffer(size_bytes); };
  PS_ASSIGN(tensors_, client::HostTensors::Make(layout, gradients, make));
  compute_->SetEncoder(
      is_encoding_ ? std::optional<client::GradientEncoder>(
                         std::in_place, layout, settings_.frame_bytes, has_error_feedback_)
                   : std::nullopt);
  return Status::Ok();
}

Status WorkerProgram::ChangeEncodings(const client::ChunkLayout& layout, bool has_feedback) {
  if (!is_encoding_) {
    return Status::Unsupported("train.gradient_dtype has this worker's device round gradients");
  }
  compute_->ChangeEncodings(layout, has_feedback);
  return Status::Ok();
}

/// By way of our own memory: a frame's is not pinned, so a device could not read it by itself.
void WorkerProgram::TakeChunk(const client::PullIntake::Fresh& fresh) {
  compute_->Upload({fresh.offset, tensors_->Take(fresh)});
}

Result<client::GradientLoan> WorkerProgram::StartCompute(const client::ComputeTask& task) {
  TaskTensors tensors{tensors_->parameters(), {}};
  std::shared_ptr<client::FlatGradient> gradient;
  if (task.kind == proto::LeaseKind::kTrain) {
    PS_ASSIGN(gradient, tensors_->Lend());
    tensors.gradient = gradient->floats();
  }
  compute_->Start(task, tensors);
  return client::GradientLoan(std::move(gradient));
}

void WorkerProgram::EndStepEarly(Step step) {
  compute_->EndEarly(step);
}

void WorkerProgram::OnSamplesAhead(const client::SamplesAhead& next) {
  compute_->Foresee(next);
}

void WorkerProgram::OnComputeDone(
    const client::ComputeTask& task, const client::ComputeResult& result) {
  const TimePoint now = SystemTime().Now();
  if (task.kind == proto::LeaseKind::kEvaluate) {
    core_->OnEvaluated(task.session, result, now, outbox());
  } else {
    core_->OnComputed(task.session, result, now, outbox());
  }
}

/// A worker whose device is lost leaves like one that is taken back: its machine may be gone next.
void WorkerProgram::OnComputeFailed(const Status& why) {
  if (why.code() == StatusCode::kUnavailable) {
    Warn("device_lost", std::string(why.message()));
    core_->OnDeviceLost(why, SystemTime().Now(), outbox());
  } else {
    Exit(why);
  }
}

void WorkerProgram::Exit(const Status& status) {
  if (is_exiting_) {
    return;
  }
  is_exiting_ = true;
  exit_status_ = status;
  // Not from inside the core's call: the endpoint still sends the core's messages.
  loop_.RunAfter({}, [this] { endpoint_->CloseAll([this] { loop_.Stop(); }); });
}

void WorkerProgram::OnConnected(proto::PeerId peer, const proto::Hello& /*hello*/) {
  endpoint_->Close(peer);  // a worker never listens, so no peer may connect to it
}

void WorkerProgram::OnMessage(proto::PeerId peer, uint64_t request_id, proto::Message&& message) {
  if (link_probe_ && link_probe_->OnMessage(peer, request_id, message)) {
    return;
  }
  core_->OnMessage(peer, request_id, std::move(message), SystemTime().Now(), outbox());
}

void WorkerProgram::OnClosed(proto::PeerId peer, const Status& why) {
  core_->OnPeerClosed(peer, SystemTime().Now());
  const bool is_wanted = !is_exiting_ && why.code() != StatusCode::kCancelled;
  if (peer == coordinator_) {
    coordinator_ = proto::PeerId();
    if (!is_exiting_) {
      log_->Warning("coordinator_lost", {{"why", why}});
      ConnectCoordinator(core_->incarnation());
    }
  } else if (const auto it = shards_.find(peer); it != shards_.end()) {
    const auto [address, incarnation] = it->second;
    shards_.erase(it);
    if (is_wanted && incarnation == core_->incarnation()) {
      log_->Warning("shard_lost", {{"shard", address.shard.value}, {"why", why}});
      ConnectShard(address, incarnation);
    }
  }
}

}  // namespace ps::worker
