#include "worker/script/script_worker.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ps/proto/exchange.h"
#include "ps/proto/limits.h"
#include "worker/script/terminate_signal.h"

namespace ps::worker {
namespace {

std::vector<int64_t> ElementsOf(const Description& description) {
  std::vector<int64_t> elements;
  for (const TensorSpec& tensor : description.tensors) {
    elements.push_back(tensor.element_count());
  }
  return elements;
}

}  // namespace

ScriptWorker::ScriptWorker(Options options, Description description, const Logger* log)
    : WorkerShell(options, log),
      description_(std::move(description)),
      device_(std::move(options.device)),
      emulation_(options.emulation),
      elements_(ElementsOf(description_)),
      layout_(elements_) {}

ScriptWorker::~ScriptWorker() {
  loop().Stop();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ScriptWorker::Start() {
  PS_CHECK(!thread_.joinable()) << "a worker that has started";
  TerminateSignal::Keep();
  Post([] { TerminateSignal::NoteHandler(); });
  thread_ = std::thread([this] {
    Status outcome = RunLoop();
    TerminateSignal::Restore();
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    outcome_ = std::move(outcome);
    changed_.notify_all();
  });
}

ScriptWorker::Wait ScriptWorker::Next(Duration limit) {
  PS_CHECK(!in_hand_) << "a second task";
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return pending_.has_value() || is_over_; });
    if (is_over_) {
      return Wait::kOver;
    }
    if (!pending_) {
      return Wait::kNothingYet;
    }
    in_hand_ = std::move(pending_);
    pending_.reset();
  }
  in_hand_->began = SystemTime().Now();
  BeginMinibatch();
  return Wait::kTask;
}

std::span<const float> ScriptWorker::Values(size_t tensor) const {
  return in_hand_->values.subspan(
      static_cast<size_t>(layout_.OffsetOf(tensor)), static_cast<size_t>(elements_[tensor]));
}

std::span<float> ScriptWorker::Gradient(size_t tensor) {
  return in_hand_->gradient->floats().subspan(
      static_cast<size_t>(layout_.OffsetOf(tensor)), static_cast<size_t>(elements_[tensor]));
}

void ScriptWorker::Encode(uint32_t tensor) {
  if (in_hand_->is_ready[tensor]) {
    return;  // the loop's thread reads it
  }
  if (encoder_) {
    if (handed_over_ == in_hand_->task.step || encoder_->EndsFeedback(tensor)) {
      encoder_->HandOver(tensor, in_hand_->gradient.get());
    } else {
      encoder_->Encode(tensor, in_hand_->gradient->floats());
    }
  }
  if (IsAsItWas(tensor)) {
    in_hand_->gradient->SetNothing(tensor);
  }
  in_hand_->is_ready[tensor] = true;
}

/// Whether it is an observation of the values that the task has begun with, as of a buffer that is
/// a constant. Of a running mean it would be one of many observations, and travels.
bool ScriptWorker::IsAsItWas(uint32_t tensor) {
  const TensorSpec& spec = description_.tensors[tensor];
  return spec.rule == UpdateRule::kAverage && spec.average_rate == 1 &&
         std::memcmp(Gradient(tensor).data(), Values(tensor).data(), Values(tensor).size_bytes()) ==
             0;
}

void ScriptWorker::TensorReady(uint32_t tensor) {
  if (in_hand_->is_ready[tensor] || in_hand_->task.is_local) {
    return;
  }
  Encode(tensor);
  Post([this, session = in_hand_->task.session, tensor] {
    core().OnTensorReady(session, tensor, SystemTime().Now(), outbox());
  });
}

bool ScriptWorker::LocalStep(uint64_t samples) {
  EndMinibatch();
  Post([this, session = in_hand_->task.session, samples] {
    core().OnLocalStep(session, static_cast<uint32_t>(samples));
  });
  BeginMinibatch();
  return early_end_ == in_hand_->task.step;
}

void ScriptWorker::Finish(client::ComputeResult result) {
  const client::ComputeTask task = in_hand_->task;
  const bool is_training = task.kind == proto::LeaseKind::kTrain;
  if (is_training) {
    for (uint32_t tensor = 0; tensor < elements_.size(); ++tensor) {
      Encode(tensor);
    }
    EndMinibatch();
    result.held_back = encoder_ ? encoder_->TakeHeldBack() : 0;
  }
  result.seconds = Seconds(SystemTime().Now() - in_hand_->began);
  in_hand_.reset();
  Post([this, task, result, is_training] {
    if (is_training) {
      core().OnComputed(task.session, result, SystemTime().Now(), outbox());
    } else {
      core().OnEvaluated(task.session, result, SystemTime().Now(), outbox());
    }
  });
}

bool ScriptWorker::Tell(const std::string& name, double value) {
  const std::lock_guard lock(mutex_);
  if (figures_.size() >= proto::kFiguresMax && !figures_.contains(name)) {
    return false;
  }
  Told& told = figures_[name];
  told.sum += value;
  ++told.count;
  return true;
}

std::vector<proto::Figure> ScriptWorker::Figures() {
  const std::lock_guard lock(mutex_);
  std::vector<proto::Figure> figures;
  for (auto& [name, told] : figures_) {
    if (told.count > 0) {
      told = {.last_mean = told.sum / static_cast<double>(told.count)};
    }
    figures.push_back({name, told.last_mean});
  }
  return figures;
}

void ScriptWorker::Leave(const std::string& why, Duration limit) {
  Drop(
      [this, why] { core().OnDeviceLost(Status::Revoked(why), SystemTime().Now(), outbox()); },
      limit);
}

void ScriptWorker::Fail(const std::string& why, Duration limit) {
  Drop([this, why] { core().OnComputeFailed(Status::Cancelled(why), outbox()); }, limit);
}

void ScriptWorker::Drop(std::function<void()> fn, Duration limit) {
  if (!thread_.joinable()) {
    return;
  }
  in_hand_.reset();
  {
    const std::lock_guard lock(mutex_);
    pending_.reset();
  }
  Post(std::move(fn));
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return is_over_; });
}

ScriptWorker::Seat ScriptWorker::seat() const {
  const std::lock_guard lock(mutex_);
  return seat_;
}

Status ScriptWorker::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

void ScriptWorker::BeginMinibatch() {
  minibatch_began_ = SystemTime().Now();
  if (emulated_) {
    Pause(emulated_->WaitBefore(in_hand_->task.kind == proto::LeaseKind::kTrain));
  }
  arithmetic_began_ = SystemTime().Now();
}

void ScriptWorker::EndMinibatch() {
  if (emulated_) {
    const TimePoint now = SystemTime().Now();
    emulated_->OnStep(now - arithmetic_began_);
    Pause(emulated_->WaitAfter(now - minibatch_began_));
  }
}

void ScriptWorker::Pause(Duration duration) {
  if (duration > Duration::zero()) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, duration, [this] { return is_over_; });
  }
}

void ScriptWorker::Post(std::function<void()> fn) {
  if (const Status posted = loop().Post(std::move(fn)); !posted.ok()) {
    log().Error("mailbox_full", {{"why", posted}});
    loop().Stop();
  }
}

/// The job may use fewer than there are. Whether others have as many is for the coordinator to see,
/// which compares what workers tell of their data.
Status ScriptWorker::CheckData(const proto::JobConfig& config) const {
  const auto check = [](const char* what, uint64_t own, uint64_t job) {
    return own >= job ? Status::Ok()
                      : Status::InvalidArgument(fmt::format(
                            "this program has {} {} samples, and the job {} (data.{}_samples); "
                            "have it read the same data on all machines",
                            own,
                            what,
                            job,
                            what));
  };
  if (description_.train_samples > 0) {  // else the job's number is all that is known
    PS_TRY(check("train", description_.train_samples, config.data.train_samples));
  }
  return check("test", description_.test_samples, config.data.test_samples);
}

Result<client::WorkerSettings> ScriptWorker::Configure(const proto::JoinReply& reply) {
  Name(reply.worker);
  PS_ASSIGN(const proto::JobConfig config, proto::ParsePrintedJobConfig(reply.config_json));
  if (config.worker.program.empty()) {
    return Status::InvalidArgument(
        "the job computes with ps_worker, and this program is none; allowed: a job with "
        "worker.program");
  }
  PS_TRY(CheckSameTensors(description_.tensors, reply.tensors));
  PS_TRY(CheckData(config));
  settings_ = client::WorkerSettings();
  settings_.overlap = config.train.overlap;
  settings_.frame_bytes = size_t{config.servers.frame_kib} << 10;
  settings_.timing = proto::Timing::Of(config);
  settings_.tensor_elements = elements_;
  for (const TensorSpec& tensor : description_.tensors) {
    const proto::PushKind kind = proto::PushKindOf(tensor.rule);
    settings_.tensor_encodings.push_back(
        proto::PushEncodingOf(proto::PushEncodingOf(config), kind));
    settings_.tensor_pushes.push_back(kind);
  }
  settings_.steps = proto::StepSettingsOf(config);
  settings_.data.train_count = description_.train_samples;
  settings_.data.test_count = description_.test_samples;
  settings_.frozen_crc = description_.frozen_crc;
  settings_.device = device_;
  has_error_feedback_ = proto::HasErrorFeedback(config);
  emulated_ = emulation::MakeDevice(double{reply.slowdown}, emulation_.step_least);
  uint64_t model_bytes = 0;
  for (const int64_t elements : elements_) {
    model_bytes += static_cast<uint64_t>(elements) * sizeof(float);
  }
  // A whole gradient may wait for a slow network, and be repeated once.
  connections().SetQueueBytesMax(
      std::max<uint64_t>(uint64_t{config.servers.queue_mib} << 20, 2 * model_bytes));
  StartTicking(settings_.timing);
  const std::lock_guard lock(mutex_);
  seat_ = {
      reply.worker.value,
      reply.threads,
      config.train.seed,
      config.data.train_samples,
      reply.device,
      reply.config_json};
  return settings_;
}

Status ScriptWorker::Prepare(const client::ChunkLayout& layout, size_t gradients) {
  tensors_.reset();  // there may not be room for both
  PS_ASSIGN(tensors_, client::HostTensors::Make(layout, gradients));
  encoder_.emplace(layout, settings_.frame_bytes, has_error_feedback_);
  return Status::Ok();
}

Status ScriptWorker::ChangeEncodings(const client::ChunkLayout& layout, bool has_feedback) {
  encoder_->Change(layout, has_feedback);
  return Status::Ok();
}

void ScriptWorker::TakeChunk(const client::PullIntake::Fresh& fresh) {
  tensors_->Take(fresh);
}

Result<client::GradientLoan> ScriptWorker::StartCompute(const client::ComputeTask& task) {
  InHand next;
  next.task = task;
  next.values = tensors_->parameters();
  next.is_ready.assign(elements_.size(), false);
  if (task.kind == proto::LeaseKind::kTrain) {
    PS_ASSIGN(next.gradient, tensors_->Lend());
  }
  client::GradientLoan loan = next.gradient;
  const std::lock_guard lock(mutex_);
  pending_ = std::move(next);
  changed_.notify_all();
  return loan;
}

}  // namespace ps::worker
