// A step puts all its work into one stream: the batch, forward, loss, backward. Gradients leave by
// a second stream as soon as an event says that they are final, so copies and arithmetic overlap;
// parameters arrive by it, and the first stream waits for them. Where device memory is the host's
// the copies are of memory onto itself, which is nothing.

#include "worker/model/network.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/proto/chunks.h"
#include "worker/model/gradient_return.h"
#include "worker/model/sequence.h"

namespace ps::worker {
namespace {

using kernels::Backend;
using kernels::Event;
using kernels::Memory;
using kernels::Stream;

template <typename Spans>
Status CheckSizes(const char* what, const Spans& spans, const std::vector<TensorSpec>& tensors) {
  if (spans.size() != tensors.size()) {
    return Status::InvalidArgument(
        fmt::format("{}: {} tensors, the model has {}", what, spans.size(), tensors.size()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (static_cast<int64_t>(spans[i].size()) != tensors[i].element_count()) {
      return Status::InvalidArgument(fmt::format(
          "{}: {} has {} elements instead of {}",
          what,
          tensors[i].name,
          spans[i].size(),
          tensors[i].element_count()));
    }
  }
  return Status::Ok();
}

static_assert(kNoLabel == kernels::kNoLabel);

/// The numbers of a batch of n samples are in range; the sizes agree.
Status CheckBatch(const Model& model, const Batch& batch, int64_t n) {
  if (batch.labels.empty()) {
    return Status::InvalidArgument("an empty batch");
  }
  if (static_cast<int64_t>(batch.labels.size()) != n * model.labels ||
      static_cast<int64_t>(batch.images.size()) != n * model.input.element_count()) {
    return Status::InvalidArgument(fmt::format(
        "{} image values for {} samples of {}", batch.images.size(), n, model.input.ToString()));
  }
  for (const uint32_t label : batch.labels) {
    if (label >= model.classes && !(label == kNoLabel && model.labels > 1)) {
      return Status::InvalidArgument(fmt::format("label {} of {} classes", label, model.classes));
    }
  }
  if (model.input.kind != ShapeKind::kTokens) {
    return Status::Ok();
  }
  const auto vocabulary = static_cast<float>(model.input.vocabulary);
  for (const float token : batch.images) {
    if (!(token >= 0 && token < vocabulary)) {
      return Status::InvalidArgument(
          fmt::format("token {} of a vocabulary of {}", token, model.input.vocabulary));
    }
  }
  return Status::Ok();
}

int64_t LabelledOf(const Batch& batch) {
  return static_cast<int64_t>(batch.labels.size()) -
         std::count(batch.labels.begin(), batch.labels.end(), kNoLabel);
}

/// `labelled` labels of n samples.
BatchLoss LossOf(const kernels::LossResult& loss, int64_t n, int64_t labelled) {
  if (labelled == n || labelled == 0) {
    return {loss.loss_sum, loss.correct, n};
  }
  const double samples_a_label = static_cast<double>(n) / static_cast<double>(labelled);
  return {
      loss.loss_sum * samples_a_label,
      std::llround(static_cast<double>(loss.correct) * samples_a_label),
      n};
}

/// Device memory for a caller's host memory; that memory itself where the two are one.
class DeviceCopy {
 public:
  /// At least so large. Errors: kInvalidArgument when memory is short.
  Status Reserve(Backend* backend, size_t size_bytes) {
    if (!backend->is_host_memory() && (memory_ == nullptr || memory_->size() < size_bytes)) {
      memory_.reset();
      PS_ASSIGN(memory_, backend->AllocateDevice(size_bytes));
    }
    return Status::Ok();
  }

  /// What the device reads; `host` goes there. Requires: reserved.
  template <typename T>
  const T* Upload(Stream* stream, std::span<const T> host) {
    if (memory_ == nullptr) {
      return host.data();
    }
    stream->Upload(host.data(), memory_->data(), host.size_bytes());
    return reinterpret_cast<const T*>(memory_->data());
  }

 private:
  std::unique_ptr<Memory> memory_;
};

/// Results of a fixed size that the device writes and the host reads.
template <typename T>
class Results {
 public:
  Status Reserve(Backend* backend, size_t count) {
    PS_ASSIGN(device_, backend->AllocateDevice(count * sizeof(T)));
    PS_ASSIGN(host_, backend->AllocatePinned(count * sizeof(T)));
    return Status::Ok();
  }

  T* device() const { return reinterpret_cast<T*>(device_->data()); }

  /// On their way; the host may read them once the stream has come so far.
  const T* Download(Stream* stream) const {
    stream->Download(device_->data(), host_->data(), device_->size());
    return reinterpret_cast<const T*>(host_->data());
  }

 private:
  std::unique_ptr<Memory> device_;
  std::unique_ptr<Memory> host_;
};

class BackendNetwork final : public Network {
 public:
  BackendNetwork(const Model& model, Backend* backend, uint64_t seed)
      : model_(model), backend_(backend), seed_(seed) {}

  /// Once, before anything else.
  Status Build() {
    PS_ASSIGN(compute_, backend_->MakeStream());
    PS_ASSIGN(copies_, backend_->MakeStream());
    PS_ASSIGN(uploaded_, backend_->MakeEvent());
    PS_ASSIGN(
        GradientReturn made,
        GradientReturn::Make(backend_, compute_.get(), copies_.get(), model_.tensors.size()));
    gradient_return_.emplace(std::move(made));
    PS_TRY(loss_.Reserve(backend_, 1));
    PS_TRY(norms_.Reserve(backend_, model_.tensors.size()));
    PS_TRY(MakeLayers());
    std::vector<int64_t> elements;
    for (const TensorSpec& tensor : model_.tensors) {
      elements.push_back(tensor.element_count());
    }
    layout_ = proto::TensorLayout(elements);
    return has_copies() ? MakeCopies() : Status::Ok();
  }

  bool has_copies() const override { return !backend_->is_host_memory(); }

  void Upload(uint32_t tensor, int64_t begin, std::span<const float> values) override {
    if (has_copies()) {
      float* const to = parameters_->floats() + layout_.OffsetOf(tensor) + begin;
      copies_->Upload(values.data(), to, values.size_bytes());
    }
  }

  Status Settle() override {
    PS_TRY(compute_->Synchronize());
    return copies_->Synchronize();
  }

  Result<BatchLoss> TrainStep(
      Parameters parameters,
      const Batch& batch,
      const StepOptions& options,
      Gradients gradients,
      const GradientReady& ready) override {
    PS_TRY(CheckSizes("gradients", gradients, model_.tensors));
    const int64_t n = SamplesOf(batch);
    const int64_t micro = options.micro_batch > 0 ? std::min(options.micro_batch, n) : n;
    PS_TRY(Prepare(parameters, batch, micro, true));
    const Gradients computed = has_copies() ? Gradients(gradient_spans_) : gradients;
    if (micro < n) {
      PS_TRY(ReservePieces());
    }
    sources_.assign(computed.begin(), computed.end());
    gradient_return_->Begin(sources_, gradients, &ready);
    const int64_t labelled = LabelledOf(batch);
    double loss_sum = 0;
    int64_t correct = 0;
    for (int64_t begin = 0; begin < n; begin += micro) {
      const Batch piece = PieceOf(batch, begin, std::min(n, begin + micro));
      const bool is_last = begin + micro >= n;
      const bool is_first = begin == 0;
      if (SamplesOf(piece) < micro) {
        PS_TRY(Reserve(SamplesOf(piece), true));
      }
      Pass pass = MakePass(parameters, piece);
      pass.training = true;
      pass.step = options.step + static_cast<uint64_t>(begin);
      pass.gradients = is_first ? computed : Gradients(piece_spans_);
      // Of the mean over all labels.
      const float weight =
          labelled > 0 ? static_cast<float>(
                             static_cast<double>(LabelledOf(piece)) / static_cast<double>(labelled))
                       : 0;
      pass.on_gradients = [&](uint32_t first_tensor, uint32_t count) {
        if (!(is_first && is_last)) {
          AddUp(pass.gradients, computed, weight, first_tensor, count);
        }
        if (is_last && options.clip_norm <= 0) {
          gradient_return_->Send(first_tensor, count);
        }
      };
      const float* images = images_.Upload(compute_.get(), piece.images);
      const kernels::LossResult* loss = Forward(pass, images, piece, logit_gradient_->floats());
      layers_->Backward(pass, images, logit_gradient_->floats(), nullptr);
      if (is_last && options.clip_norm > 0) {
        PS_TRY(Clip(computed, options.clip_norm));
        gradient_return_->Send(0, static_cast<uint32_t>(computed.size()));
      }
      if (is_last) {
        PS_TRY(gradient_return_->Finish());
        PS_TRY(Settle());
      } else {
        PS_TRY(compute_->Synchronize());
      }
      loss_sum += loss->loss_sum;
      correct += loss->correct;
    }
    return LossOf({loss_sum, correct}, n, labelled);
  }

  Result<BatchLoss> Evaluate(Parameters parameters, const Batch& batch) override {
    PS_TRY(Prepare(parameters, batch, SamplesOf(batch), false));
    const Pass pass = MakePass(parameters, batch);
    const float* images = images_.Upload(compute_.get(), batch.images);
    const kernels::LossResult* loss = Forward(pass, images, batch, nullptr);
    PS_TRY(Settle());
    return LossOf(*loss, pass.n, LabelledOf(batch));
  }

 private:
  int64_t SamplesOf(const Batch& batch) const {
    return static_cast<int64_t>(batch.labels.size()) / model_.labels;
  }

  Batch PieceOf(const Batch& batch, int64_t begin, int64_t end) const {
    const auto elements = static_cast<size_t>(model_.input.element_count());
    const auto labels = static_cast<size_t>(model_.labels);
    const auto from = static_cast<size_t>(begin);
    const auto count = static_cast<size_t>(end - begin);
    return {
        batch.images.subspan(from * elements, count * elements),
        batch.labels.subspan(from * labels, count * labels)};
  }

  /// Memory for the gradients of all pieces but the first, which has that of the sum.
  Status ReservePieces() {
    if (pieces_ != nullptr) {
      return Status::Ok();
    }
    const size_t size_bytes = static_cast<size_t>(layout_.element_count()) * sizeof(float);
    PS_ASSIGN(pieces_, backend_->AllocateDevice(size_bytes));
    for (size_t i = 0; i < model_.tensors.size(); ++i) {
      const auto size = static_cast<size_t>(model_.tensors[i].element_count());
      piece_spans_.emplace_back(pieces_->floats() + layout_.OffsetOf(i), size);
    }
    return Status::Ok();
  }

  /// Adds the weighted gradients of a piece to the sum; the first one is the sum.
  void AddUp(Gradients piece, Gradients sum, float weight, uint32_t first_tensor, uint32_t count) {
    for (size_t i = first_tensor; i < first_tensor + size_t{count}; ++i) {
      const auto size = static_cast<int64_t>(sum[i].size());
      compute_->Scale(weight, piece[i].data(), size);
      if (piece[i].data() != sum[i].data()) {
        compute_->Add(sum[i].data(), piece[i].data(), sum[i].data(), size);
      }
    }
  }

  Status MakeLayers() {
    PS_ASSIGN(
        Sequence layers,
        Sequence::Make(
            model_.layers, {.backend = backend_, .stream = compute_.get(), .seed = seed_}));
    if (model_.input.channels > 1 && !model_.input.is_flat()) {
      PS_TRY(layers.PrependChannelsLast(model_.input));
    }
    layers_.emplace(std::move(layers));
    return Status::Ok();
  }

  /// The device's own parameters and gradients.
  Status MakeCopies() {
    const size_t size_bytes = static_cast<size_t>(layout_.element_count()) * sizeof(float);
    PS_ASSIGN(parameters_, backend_->AllocateDevice(size_bytes));
    PS_ASSIGN(gradients_, backend_->AllocateDevice(size_bytes));
    for (size_t i = 0; i < model_.tensors.size(); ++i) {
      const auto size = static_cast<size_t>(model_.tensors[i].element_count());
      parameter_spans_.emplace_back(parameters_->floats() + layout_.OffsetOf(i), size);
      gradient_spans_.emplace_back(gradients_->floats() + layout_.OffsetOf(i), size);
    }
    return Status::Ok();
  }

  /// Checks the arguments and has what n samples at a time need.
  Status Prepare(Parameters parameters, const Batch& batch, int64_t n, bool training) {
    PS_TRY(CheckSizes("parameters", parameters, model_.tensors));
    PS_TRY(CheckBatch(model_, batch, SamplesOf(batch)));
    Status status = Reserve(n, training);
    return status.code() == StatusCode::kInvalidArgument ? TooLarge(n, training, status) : status;
  }

  Status Reserve(int64_t n, bool training) {
    const auto count = static_cast<size_t>(n);
    const auto elements = static_cast<size_t>(model_.input.element_count());
    PS_TRY(images_.Reserve(backend_, count * elements * sizeof(float)));
    const size_t labels = count * static_cast<size_t>(model_.labels);
    PS_TRY(labels_.Reserve(backend_, labels * sizeof(uint32_t)));
    const size_t logit_bytes = labels * static_cast<size_t>(model_.classes) * sizeof(float);
    if (training && (logit_gradient_ == nullptr || logit_bytes > logit_gradient_->size())) {
      logit_gradient_.reset();
      PS_ASSIGN(logit_gradient_, backend_->AllocateDevice(logit_bytes));
    }
    return layers_->Prepare(n, training);
  }

  /// Back to the memory that no batch has needed yet.
  Status Release() {
    layers_.reset();
    images_ = DeviceCopy();
    labels_ = DeviceCopy();
    logit_gradient_.reset();
    return MakeLayers();
  }

  /// Memory is short for batches of n: tries how large they may be, each time with new layers.
  Status TooLarge(int64_t n, bool training, const Status& why) {
    int64_t fits = 0;
    int64_t too_many = n;
    while (too_many - fits > 1) {
      const int64_t middle = fits + (too_many - fits) / 2;
      PS_TRY(Release());
      (Reserve(middle, training).ok() ? fits : too_many) = middle;
    }
    PS_TRY(Release());
    const std::string what =
        fits == 0 ? "a single sample does not" : fmt::format("one of {} does", fits);
    return Status::InvalidArgument(fmt::format(
        "a minibatch of {} does not fit into the memory of {}, {}: {}",
        n,
        backend_->Name(),
        what,
        why.message()));
  }

  Pass MakePass(Parameters parameters, const Batch& batch) const {
    Pass pass;
    pass.n = SamplesOf(batch);
    pass.parameters = has_copies() ? Parameters(parameter_spans_) : parameters;
    return pass;
  }

  /// Up to the loss; `dz` may be nullptr. The result can be read after Settle.
  const kernels::LossResult* Forward(
      const Pass& pass, const float* images, const Batch& batch, float* dz) {
    copies_->Record(uploaded_.get());
    compute_->WaitFor(*uploaded_);
    const float* const logits = layers_->Forward(pass, images);
    compute_->SoftmaxCrossEntropy(
        {.n = static_cast<int64_t>(batch.labels.size()),
         .classes = model_.classes,
         .logits = logits,
         .labels = labels_.Upload(compute_.get(), batch.labels),
         .dz = dz,
         .result = loss_.device(),
         .labelled = LabelledOf(batch)});
    return loss_.Download(compute_.get());
  }

  /// Scales what the optimizer gets, as StepOptions::clip_norm says.
  Status Clip(Gradients gradients, float norm_max) {
    std::vector<size_t> clipped;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (model_.tensors[i].rule == UpdateRule::kOptimizer) {
        const auto size = static_cast<int64_t>(gradients[i].size());
        compute_->SquaredNorm(gradients[i].data(), size, norms_.device() + clipped.size());
        clipped.push_back(i);
      }
    }
    const double* const squares = norms_.Download(compute_.get());
    PS_TRY(compute_->Synchronize());
    const double norm = std::sqrt(std::accumulate(squares, squares + clipped.size(), 0.0));
    if (std::isfinite(norm) && norm > static_cast<double>(norm_max)) {
      const auto factor = static_cast<float>(static_cast<double>(norm_max) / norm);
      for (const size_t i : clipped) {
        compute_->Scale(factor, gradients[i].data(), static_cast<int64_t>(gradients[i].size()));
      }
    }
    return Status::Ok();
  }

  const Model model_;
  Backend* const backend_;
  const uint64_t seed_;
  std::unique_ptr<Stream> compute_;
  std::unique_ptr<Stream> copies_;   // of parameters and gradients
  std::unique_ptr<Event> uploaded_;  // the parameters that the next pass reads
  std::optional<GradientReturn> gradient_return_;
  Results<kernels::LossResult> loss_;
  Results<double> norms_;
  std::optional<Sequence> layers_;
  DeviceCopy images_;
  DeviceCopy labels_;
  std::unique_ptr<Memory> logit_gradient_;
  proto::TensorLayout layout_;
  std::unique_ptr<Memory> pieces_;  // of steps in pieces
  std::vector<std::span<float>> piece_spans_;
  // With copies.
  std::unique_ptr<Memory> parameters_;
  std::unique_ptr<Memory> gradients_;
  std::vector<std::span<const float>> parameter_spans_;
  std::vector<std::span<float>> gradient_spans_;
  std::vector<std::span<const float>> sources_;  // of the step's gradients, on the device
};

}  // namespace

Result<std::unique_ptr<Network>> Network::Make(
    const Model& model, Backend* backend, uint64_t seed) {
  auto network = std::make_unique<BackendNetwork>(model, backend, seed);
  PS_TRY(network->Build());
  return std::unique_ptr<Network>(std::move(network));
}

void Network::UploadAll(Parameters parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    Upload(static_cast<uint32_t>(i), 0, parameters[i]);
  }
}

}  // namespace ps::worker
