#include "worker/trainer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/cpu/vector.h"
#include "ps/proto/chunks.h"
#include "ps/proto/exchange.h"
#include "ps/proto/job/task.h"
#include "worker/model/metric_sums.h"
#include "worker/model/model_memory.h"
#include "worker/model/norm_batches.h"

namespace ps::worker {
namespace {

/// Test samples are taken this many at a time, whatever the range, so that one plan serves them
/// all.
constexpr uint64_t kEvaluateBatch = 250;
/// Fewer sequences, so that they have no more tokens than this in all.
constexpr uint64_t kEvaluateTokens = 8192;

uint64_t EvaluateBatch(const Shape& shape) {
  return shape.kind == ShapeKind::kTokens
             ? std::clamp<uint64_t>(
                   kEvaluateTokens / static_cast<uint64_t>(shape.height), 1, kEvaluateBatch)
             : kEvaluateBatch;
}

/// Bytes travel to a device's own memory faster, and the device makes pictures of them; a CPU has
/// the prefetcher's thread do that.
BatchForm FormFor(const Dataset& dataset, const Network& network) {
  return network.has_copies() && dataset.pictures() != nullptr ? BatchForm::kBytes
                                                               : BatchForm::kValues;
}

Batch BatchOf(const BatchMemory& memory) {
  return {memory.images, memory.labels, memory.bytes, memory.moves};
}

}  // namespace

Trainer::Trainer(
    const proto::JobConfig& config,
    Dataset dataset,
    Model model,
    std::vector<std::shared_ptr<kernels::Backend>> backends,
    std::unique_ptr<Network> network)
    : config_(config),
      dataset_(std::move(dataset)),
      model_(std::move(model)),
      backends_(std::move(backends)),
      network_(std::move(network)),
      form_(FormFor(dataset_, *network_)),
      prefetcher_(&dataset_, config_.train.seed, form_, [this](int slot, size_t size_bytes) {
        return MakeSlot(slot, size_bytes);
      }) {
  for (const TensorSpec& tensor : model_.tensors) {
    elements_.push_back(tensor.element_count());
  }
  const proto::TensorLayout layout(elements_);
  for (size_t i = 0; i < elements_.size(); ++i) {
    offsets_.push_back(layout.OffsetOf(i));
  }
}

std::vector<proto::PushKind> Trainer::TensorPushes() const {
  std::vector<proto::PushKind> pushes;
  for (size_t i = 0; i < model_.tensors.size(); ++i) {
    pushes.push_back(proto::PushKindOf(model_.tensors[i].rule, model_.TreatmentOf(i).is_frozen));
  }
  return pushes;
}

std::vector<codec::Encoding> Trainer::TensorEncodings() const {
  const codec::Encoding push = proto::PushEncodingOf(config_);
  std::vector<codec::Encoding> encodings;
  for (const proto::PushKind kind : TensorPushes()) {
    encodings.push_back(proto::PushEncodingOf(push, kind));
  }
  return encodings;
}

Result<Buffer> Trainer::MakeBuffer(size_t size_bytes) const {
  PS_ASSIGN(std::shared_ptr<kernels::Memory> memory, backends_[0]->AllocatePinned(size_bytes));
  std::byte* const data = memory->data();
  // The backend goes after its last memory.
  auto owner = std::make_shared<std::pair<std::shared_ptr<kernels::Backend>, decltype(memory)>>(
      backends_[0], std::move(memory));
  return Buffer(data, size_bytes, std::move(owner));
}

void Trainer::Upload(const ParameterRange& changed) {
  const auto next = std::ranges::upper_bound(offsets_, changed.offset);
  const auto tensor = static_cast<uint32_t>(next - offsets_.begin() - 1);
  network_->Upload(tensor, changed.offset - offsets_[tensor], changed.values);
}

Status Trainer::SetEncodings(
    const client::ChunkLayout& layout, size_t frame_bytes, bool has_feedback) {
  std::vector<DeviceEncoder::Parts> all(elements_.size());
  const proto::ChunkParts parts(frame_bytes);
  for (const client::ChunkLayout::Chunk& chunk : layout.chunks()) {
    const uint32_t tensor = TensorOf(chunk.key);
    const auto at = static_cast<size_t>(offsets_[tensor]);
    for (uint32_t i = 0; chunk.encoding.is_lossy() && i < parts.CountOf(chunk.element_count); ++i) {
      const auto [begin, count] = parts.At(chunk.element_count, i);
      all[tensor].push_back(
          {chunk.encoding,
           static_cast<size_t>(chunk.offset) + begin - at,
           count,
           chunk.GradientAt(begin) - at * sizeof(float)});
    }
  }
  for (DeviceEncoder::Parts& of_tensor : all) {
    std::ranges::sort(of_tensor, {}, &DeviceEncoder::Part::begin);
  }
  Status status = network_->encoder()->Change(std::move(all), has_feedback);
  device_encodes_ = status.ok();
  if (status.code() == StatusCode::kInvalidArgument) {
    network_->NoteEncodingOnHost(status);
  }
  return status;
}

void Trainer::StopEncodings() {
  network_->encoder()->Stop();
  device_encodes_ = false;
}

Status Trainer::BeginEncodings(
    const client::ChunkLayout& layout, size_t frame_bytes, bool has_feedback) {
  network_->encoder()->Forget();
  return SetEncodings(layout, frame_bytes, has_feedback);
}

Status Trainer::FinishEncoded(uint32_t tensor, bool whole, client::FlatGradient* loan) {
  if (!has_copies()) {
    return Status::Ok();
  }
  const DeviceEncoder& encoder = *network_->encoder();
  const bool is_encoded = is_encoded_ && encoder.Encodes(tensor);
  const bool has_kept = encoder.IsKept(tensor) && (whole || !encoder.Encodes(tensor));
  if (has_kept) {
    PS_TRY(network_->TakeKept(tensor, is_encoded, gradients_[tensor]));
  }
  if (device_encodes_ && encoder.HasParts(tensor) && (has_kept || !is_encoded)) {
    loan->SetWhole(tensor);
  }
  return Status::Ok();
}

void Trainer::SettleUploads() {
  network_->SettleUploads().Ignore("a device that is lost reads nothing; the next step tells");
}

void Trainer::Settle() {
  network_->Settle().Ignore("a device that is lost reads nothing; the next step tells");
}

void Trainer::Foresee(const client::SamplesAhead& next) {
  prefetcher_.Foresee({next.epoch, {next.begin, next.end}});
}

Result<client::ComputeResult> Trainer::Step(
    const client::ComputeTask& task, const TaskTensors& tensors, const StepWatch& watch) {
  Split(tensors.parameters, &parameters_);
  Split(tensors.gradient, &gradients_);
  if (task.is_local) {
    return MakeLocalSteps(task, watch);
  }
  TakeDeviceBack();
  network_->TakeUploads();
  return Minibatch(task, watch, false);
}

/// The gradient of the samples, with parameters_, into gradients_.
Result<client::ComputeResult> Trainer::Minibatch(
    const client::ComputeTask& task, const StepWatch& watch, bool is_local) {
  const uint64_t samples = task.end - task.begin;
  if (watch.on_begin && !watch.on_begin()) {
    return Status::Cancelled("the step is given up");
  }
  const auto ready = [&](uint32_t tensor) {
    if (watch.on_ready && !is_local) {
      watch.on_ready(tensor);
    }
  };
  PS_ASSIGN(const BatchMemory memory, prefetcher_.Take({task.epoch, {task.begin, task.end}}));
  client::ComputeResult result;
  is_encoded_ = device_encodes_;
  if (samples < static_cast<uint64_t>(LeastTrainBatch(model_))) {
    is_encoded_ = false;
    PS_ASSIGN(result, PassOver(memory, ready));
  } else {
    // Dropout differs from step to step and from worker to worker, and is the same when repeated.
    const uint64_t dropout_step = (uint64_t{task.epoch} << 40) ^ task.begin;
    const bool is_bf16 = config_.train.gradient_dtype == proto::GradientDtype::kBf16;
    const auto on_begin = [&] {
      if (watch.on_taken && !is_local && network_->has_second_copy()) {
        watch.on_taken();
      }
    };
    PS_ASSIGN(
        const BatchLoss loss,
        network_->TrainStep(
            parameters_,
            BatchOf(memory),
            {.step = dropout_step,
             .clip_norm = config_.optimizer.clip_norm,
             .micro_batch = config_.train.micro_batch,
             .bf16_gradients = is_bf16 && !is_local,
             .encodes = is_encoded_ && !is_local,
             .stays = is_local,
             .on_begin = on_begin},
            gradients_,
            ready));
    result = {loss.loss_sum, static_cast<uint64_t>(loss.correct)};
  }
  if (watch.on_end && !watch.on_end(samples)) {
    return Status::Cancelled("the step is given up");
  }
  return result;
}

Result<client::ComputeResult> Trainer::MakeLocalSteps(
    const client::ComputeTask& task, const StepWatch& watch) {
  PS_TRY(BeginLocalSteps());
  client::ComputeResult result;
  client::ComputeTask minibatch = task;
  minibatch.end = task.begin;
  while (minibatch.end < task.end && (early_end_ != task.step || minibatch.end == task.begin)) {
    minibatch.begin = minibatch.end;
    minibatch.end = std::min(task.end, minibatch.begin + task.minibatch);
    if (minibatch.end < task.end) {
      const uint64_t next_end = std::min(task.end, minibatch.end + task.minibatch);
      prefetcher_.Foresee({task.epoch, {minibatch.end, next_end}});
    }
    PS_ASSIGN(const client::ComputeResult one, Minibatch(minibatch, watch, true));
    const uint64_t samples = minibatch.end - minibatch.begin;
    if (samples >= static_cast<uint64_t>(LeastTrainBatch(model_))) {
      const uint64_t done = task.samples_done + (minibatch.begin - task.begin);
      PS_TRY(local_steps_->Take(network_->sums(), samples, FractionOf(done)));
      if (has_copies()) {
        network_->ShareParameters();
      }
    }
    result.loss_sum += one.loss_sum;
    result.correct += one.correct;
    result.samples += samples;
  }
  PS_TRY(FinishLocalSteps());
  if (local_steps_->is_diverging()) {
    result.loss_sum = std::numeric_limits<double>::quiet_NaN();
  }
  return result;
}

/// From then on a device has parameters of the worker's own.
Status Trainer::BeginLocalSteps() {
  if (has_copies()) {
    TakeDeviceBack();
    network_->TakeUploads();
  }
  if (!local_steps_) {
    std::optional<LocalSteps::Place> place;
    if (has_copies()) {
      const TensorMemory& parameters = network_->device_parameters();
      place = {network_->compute(), parameters.spans(), parameters.all()};
    }
    local_steps_.emplace(config_, model_, backends_[0], place);
  }
  Status begun = local_steps_->Begin(parameters_);
  while (begun.code() == StatusCode::kInvalidArgument && has_copies()) {
    PS_ASSIGN(const bool has_more, network_->GiveUpMemory(begun));
    if (!has_more) {
      break;
    }
    begun = local_steps_->Begin(parameters_);
  }
  PS_TRY(begun);
  is_device_local_ = has_copies();
  if (!has_copies()) {
    parameters_.assign(local_steps_->parameters().begin(), local_steps_->parameters().end());
  }
  return Status::Ok();
}

/// Into gradients_; a device has the servers' parameters again.
Status Trainer::FinishLocalSteps() {
  if (!has_copies()) {
    PS_TRY(local_steps_->Finish(gradients_));
    PackGradients();
    return Status::Ok();
  }
  is_encoded_ = device_encodes_;
  const kernels::Spans sums = network_->sums();
  PS_TRY(local_steps_->Finish(sums));
  network_->ShareParameters();
  is_device_local_ = false;
  const bool is_bf16 = config_.train.gradient_dtype == proto::GradientDtype::kBf16;
  return network_->Return(gradients_, {.bf16_gradients = is_bf16, .encodes = is_encoded_});
}

double Trainer::FractionOf(uint64_t samples) const {
  const auto total = static_cast<double>(dataset_.info().train_count) * config_.train.epochs;
  return total > 0 ? static_cast<double>(samples) / total : 0;
}

/// As the device leaves those of a minibatch.
void Trainer::PackGradients() {
  const bool is_bf16 = config_.train.gradient_dtype == proto::GradientDtype::kBf16;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (is_bf16 && model_.tensors[i].rule == UpdateRule::kOptimizer) {
      float* const values = gradients_[i].data();  // packing writes behind what it reads
      kernels::PackBf16(
          values, reinterpret_cast<uint16_t*>(values), static_cast<int64_t>(gradients_[i].size()));
    }
  }
}

void Trainer::TakeDeviceBack() {
  if (std::exchange(is_device_local_, false)) {
    network_->UploadAll(parameters_);
    SettleUploads();  // others may write to where they come from
  }
}

Result<client::ComputeResult> Trainer::Evaluate(
    std::span<const float> parameters, uint64_t begin, uint64_t end) {
  Split(parameters, &parameters_);
  TakeDeviceBack();
  network_->TakeUploads();
  client::ComputeResult result;
  const uint64_t batch = EvaluateBatch(dataset_.info().shape);
  for (uint64_t at = begin; at < end; at += batch) {
    const SampleRange range{at, std::min(at + batch, end)};
    PS_ASSIGN(const BatchMemory memory, Memory(range.end - range.begin));
    PS_TRY(dataset_.FetchTest(range, memory));
    PS_ASSIGN(const BatchLoss loss, network_->Evaluate(parameters_, BatchOf(memory)));
    result.loss_sum += loss.loss_sum;
    result.correct += static_cast<uint64_t>(loss.correct);
    AddMetrics(model_, loss, memory.labels, dataset_.target_means(), &result.sums);
  }
  return result;
}

Result<BatchMemory> Trainer::Memory(uint64_t samples) {
  const BatchLayout layout = dataset_.LayoutOf(form_);
  PS_TRY(Grow(layout.BytesFor(samples), &tests_));
  return layout.At(tests_->data(), samples);
}

Result<client::ComputeResult> Trainer::PassOver(
    const BatchMemory& memory, const std::function<void(uint32_t)>& ready) {
  PS_ASSIGN(const BatchLoss loss, network_->Evaluate(parameters_, BatchOf(memory)));
  for (uint32_t tensor = static_cast<uint32_t>(elements_.size()); tensor-- > 0;) {
    if (model_.tensors[tensor].rule == UpdateRule::kAverage) {
      std::ranges::copy(parameters_[tensor], gradients_[tensor].begin());
    } else {
      std::ranges::fill(gradients_[tensor], 0.0F);
    }
    ready(tensor);
  }
  return client::ComputeResult{loss.loss_sum, static_cast<uint64_t>(loss.correct), 0};
}

Result<std::byte*> Trainer::MakeSlot(int slot, size_t size_bytes) {
  PS_TRY(Grow(size_bytes, &train_slots_[slot]));
  return train_slots_[slot]->data();
}

Status Trainer::Grow(size_t size_bytes, std::unique_ptr<kernels::Memory>* memory) const {
  if (*memory == nullptr || (*memory)->size() < size_bytes) {
    PS_ASSIGN(*memory, backends_[0]->AllocatePinned(size_bytes));
  }
  return Status::Ok();
}

template <typename T>
void Trainer::Split(std::span<T> flat, std::vector<std::span<T>>* tensors) const {
  tensors->clear();
  for (size_t i = 0; i < elements_.size(); ++i) {
    tensors->push_back(
        flat.subspan(static_cast<size_t>(offsets_[i]), static_cast<size_t>(elements_[i])));
  }
}

Result<std::unique_ptr<Trainer>> Trainer::Make(
    const proto::JobConfig& config,
    std::vector<std::shared_ptr<kernels::Backend>> backends,
    LoadProgress* progress) {
  PS_ASSIGN(
      Dataset dataset,
      Dataset::Load(
          config.data,
          progress,
          proto::TaskOf(config.model),
          config.train.seed,
          StoredState::kAsCached));
  const DatasetInfo& info = dataset.info();
  PS_ASSIGN(Model model, MakeModel(config.model, info.shape, info.classes, info.labels));
  PS_TRY(TreatTensors(config, &model));
  PS_TRY(CheckTrainBatches(config, model));
  std::vector<kernels::Backend*> devices;
  for (const auto& backend : backends) {
    devices.push_back(backend.get());
  }
  const auto precision = config.train.precision == proto::Precision::kBf16
                             ? kernels::Precision::kBf16
                             : kernels::Precision::kF32;
  PS_ASSIGN(auto network, Network::Make(model, devices, config.train.seed, precision));
  if (FormFor(dataset, *network) == BatchForm::kBytes) {
    PS_TRY(network->TakePictures(*dataset.pictures()));
  }
  if (network->has_copies() && OverlapsSteps(config)) {
    PS_TRY(network->ReserveSecondCopy());
  }
  return std::unique_ptr<Trainer>(new Trainer(
      config, std::move(dataset), std::move(model), std::move(backends), std::move(network)));
}

}  // namespace ps::worker
