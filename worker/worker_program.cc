#include "worker/worker_program.h"

#include <fmt/core.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "ps/proto/exchange.h"
#include "ps/proto/job/device_choice.h"
#include "worker/trainer.h"

namespace ps::worker {
namespace {

constexpr Duration kLoadingToldEvery = std::chrono::seconds(10);

/// A device takes steps so fast that one thread can't move what they push and pull. Where the CPU
/// computes, its cores are for that.
size_t LinkThreadsFor(const Trainer& trainer) {
  constexpr size_t kCoresEach = 4;
  constexpr size_t kThreadsMax = 4;
  const size_t cores = std::thread::hardware_concurrency();
  return trainer.has_copies() ? std::clamp<size_t>(cores / kCoresEach, 1, kThreadsMax) : 1;
}

}  // namespace

WorkerProgram::WorkerProgram(Options options, const Logger* log)
    : WorkerShell(options, log), options_(std::move(options)) {
  compute_ = std::make_unique<ComputeThread>(
      &loop(),
      ComputeThread::Callbacks{
          [this](uint64_t session, uint32_t tensor) {
            core().OnTensorReady(session, tensor, SystemTime().Now(), outbox());
          },
          [this](uint64_t session, uint32_t samples) { core().OnLocalStep(session, samples); },
          [this](const client::ComputeTask& task, const client::ComputeResult& result) {
            OnComputeDone(task, result);
          },
          [this](const std::string& note) { Warn("device_memory", note); },
          [this](const Status& why) { OnComputeFailed(why); }});
  loader_ = std::make_unique<Loader>(&loop(), options_.make_trainer, [this] {
    this->log().Info("loaded", {{"seconds", Seconds(SystemTime().Now() - loading_since_)}});
    core().OnLoaded(SystemTime().Now(), outbox());
  });
}

WorkerProgram::~WorkerProgram() {
  loader_->Stop();
  compute_->Stop();
}

Status WorkerProgram::Run() {
  const Status status = RunLoop();
  loader_->Stop();
  compute_->Stop();
  if (trainer_ != nullptr) {
    const Prefetcher::Figures& data = trainer_->data_figures();
    log().Info(
        "data_figures",
        {{"minibatches", data.batches},
         {"fetched_ahead", data.foreseen},
         {"waited_s", data.waited_s}});
  }
  return status;
}

void WorkerProgram::LogLoading() {
  const TimePoint now = SystemTime().Now();
  if (loader_->is_loading() && now - loading_told_ >= kLoadingToldEvery) {
    loading_told_ = now;
    log().Info("loading", {{"what", LoadingText()}, {"seconds", Seconds(now - loading_since_)}});
  }
}

std::string WorkerProgram::LoadingText() const {
  if (!loader_->is_loading()) {
    return data_directory_;
  }
  const std::string trouble = loader_->trouble();
  return fmt::format(
      "{}, {:.0f} %{}{}",
      data_directory_,
      100 * loader_->share(),
      trouble.empty() ? "" : ": ",
      trouble);
}

/// Loads once for each config. What is being loaded when another one is asked for is waited for.
Result<std::optional<proto::Timing>> WorkerProgram::Load(const proto::JoinReply& reply) {
  Name(reply.worker);
  if (loader_->is_loading()) {
    return std::optional(timing());
  }
  PS_ASSIGN(
      const proto::JobConfig config,
      proto::ParseJobConfig(reply.config_json, "the coordinator's config"));
  PS_TRY(ChooseDevice(reply, config.train.mode));
  const bool is_here = reply.config_json == config_json_ || reply.config_json == loaded_json_;
  if (is_here) {
    return std::optional<proto::Timing>();
  }
  if (!config.worker.program.empty()) {
    return Status::InvalidArgument(
        "the job computes with worker.program; start ps_worker with --program and --directory, as "
        "the job has them");
  }
  loader_->Take().status().Ignore("it is of a config that is not asked for any more");
  loaded_json_ = reply.config_json;
  data_directory_ = config.data.directory;
  loading_since_ = SystemTime().Now();
  loading_told_ = loading_since_;
  loader_->Start(config, device_.backends);
  StartTicking(proto::Timing::Of(config));
  return std::optional(timing());
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
/// A bsp step adds up the same gradients in every run, so their products are to have the same bits,
/// too; in the other modes the order in which gradients come differs anyhow.
Status WorkerProgram::ChooseDevice(const proto::JoinReply& reply, proto::Mode mode) {
  const std::string& wanted = options_.device.empty() ? reply.device : options_.device;
  PS_ASSIGN(const proto::DeviceChoice choice, proto::ParseDevice(wanted));
  const Products products = mode == proto::Mode::kBsp ? Products::kSameBits : Products::kFastest;
  if (device_choice_ == choice && products_ == products) {
    return Status::Ok();
  }
  PS_ASSIGN(device_, options_.open_device(choice, reply.worker, products));
  device_choice_ = choice;
  products_ = products;
  config_json_.clear();  // its trainer is of the old device
  loaded_json_.clear();
  settings_.device = device_.name;
  for (const auto& backend : device_.backends) {
    log().Info("device", {{"name", backend->Name()}});
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
  settings_.tensor_pushes = trainer->TensorPushes();
  settings_.steps = proto::StepSettingsOf(config);
  is_encoding_ = !proto::IsEncodedByDevice(config);
  has_error_feedback_ = proto::HasErrorFeedback(config);
  settings_.data = trainer->data();
  if (!trainer->data_note().empty()) {
    Warn("data_cache", trainer->data_note());
  }
  uint64_t model_bytes = 0;
  for (const int64_t elements : settings_.tensor_elements) {
    model_bytes += static_cast<uint64_t>(elements) * sizeof(float);
  }
  // A whole gradient may wait for a slow network, and be repeated once.
  connections().SetQueueBytesMax(
      std::max<uint64_t>(uint64_t{config.servers.queue_mib} << 20, 2 * model_bytes));
  trainer_ = trainer.get();
  ChooseLinkThreads(LinkThreadsFor(*trainer));
  compute_->SetTrainer(std::move(trainer));
  return Status::Ok();
}

Status WorkerProgram::Prepare(const client::ChunkLayout& layout, size_t gradients) {
  tensors_.reset();  // there may not be room for both
  const auto make = [this](size_t size_bytes) { return trainer_->MakeBuffer(size_bytes); };
  PS_ASSIGN(tensors_, client::HostTensors::Make(layout, gradients, make));
  if (is_encoding_) {
    compute_->SetEncodings(layout, settings_.frame_bytes, has_error_feedback_);
  } else {
    compute_->EncodeNothing();
  }
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
  if (trainer_->has_copies()) {
    compute_->Upload(fresh, &*tensors_);
  } else {
    tensors_->Take(fresh);
  }
}

bool WorkerProgram::TakesChunksDuringTasks() const {
  return trainer_->has_copies();
}

Result<client::GradientLoan> WorkerProgram::StartCompute(const client::ComputeTask& task) {
  TaskTensors tensors{tensors_->parameters(), {}};
  std::shared_ptr<client::FlatGradient> gradient;
  if (task.kind == proto::LeaseKind::kTrain) {
    PS_ASSIGN(gradient, tensors_->Lend());
    tensors.gradient = gradient->floats();
    tensors.loan = gradient.get();
  }
  compute_->Start(task, tensors);
  return client::GradientLoan(std::move(gradient));
}

void WorkerProgram::EndStepEarly(Step step) {
  compute_->EndEarly(step);
}

void WorkerProgram::HandOver(Step step) {
  compute_->HandOver(step);
}

void WorkerProgram::OnSamplesAhead(const client::SamplesAhead& next) {
  compute_->Foresee(next);
}

void WorkerProgram::OnComputeDone(
    const client::ComputeTask& task, const client::ComputeResult& result) {
  const TimePoint now = SystemTime().Now();
  if (task.kind == proto::LeaseKind::kEvaluate) {
    core().OnEvaluated(task.session, result, now, outbox());
  } else {
    core().OnComputed(task.session, result, now, outbox());
  }
}

/// A worker whose device is lost leaves like one that is taken back: its machine may be gone next.
void WorkerProgram::OnComputeFailed(const Status& why) {
  if (why.code() == StatusCode::kUnavailable) {
    Warn("device_lost", std::string(why.message()));
    core().OnDeviceLost(why, SystemTime().Now(), outbox());
  } else {
    core().OnComputeFailed(why, outbox());
  }
}

}  // namespace ps::worker
