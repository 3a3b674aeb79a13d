// All work of a piece goes into one stream: the batch, forward, loss, backward. Sums leave for the
// device ahead by a second stream behind events, and parameters arrive by a third, so copies and
// arithmetic overlap. Where device memory is the host's the copies are of memory onto itself, which
// is nothing.

#include "worker/model/replica.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/text.h"

namespace ps::worker {

using kernels::Backend;

double DivisorOf(const kernels::LossRule& loss, const Batch& batch) {
  if (!HasClasses(loss.kind)) {
    return static_cast<double>(batch.labels.size());
  }
  double sum = 0;
  for (const uint32_t label : batch.labels) {
    if (label != kNoLabel) {
      sum += loss.class_weights.empty() ? 1.0 : static_cast<double>(loss.class_weights[label]);
    }
  }
  return sum;
}

Result<std::unique_ptr<Replica>> Replica::Make(const Model* model, const Options& options) {
  std::unique_ptr<Replica> replica(new Replica(model, options));
  PS_TRY(replica->Build());
  return replica;
}

Status Replica::Build() {
  Backend* const backend = options_.backend;
  PS_ASSIGN(compute_, backend->MakeStream());
  PS_ASSIGN(copies_, backend->MakeCopyStream());
  PS_TRY(parameters_.Make(backend, &model_, compute_.get()));
  PS_ASSIGN(trained_, backend->MakeEvent());
  PS_ASSIGN(shared_, backend->MakeEvent());
  PS_TRY(loss_.Reserve(backend, 1));
  PS_TRY(numbers_.Reserve(backend, 1));
  PS_TRY(PutClassWeights());
  recorder_.emplace(compute_.get(), &model_.tensors);
  PS_TRY(MakeLayers());
  std::vector<int64_t> elements;
  for (const TensorSpec& tensor : model_.tensors) {
    elements.push_back(tensor.element_count());
  }
  layout_ = proto::TensorLayout(elements);
  PS_TRY(ReserveTensors());
  for (size_t i = 0; i < elements.size() && !options_.is_first; ++i) {
    Hop hop;
    PS_ASSIGN(hop.final, backend->MakeEvent());
    PS_ASSIGN(hop.arrived, backend->MakeEvent());
    hops_.push_back(std::move(hop));
  }
  hop_of_.resize(hops_.size());
  return Status::Ok();
}

/// Errors: kInvalidArgument, the model does not fit whatever the minibatch.
Status Replica::ReserveTensors() {
  std::vector<std::function<Status()>> wanted;
  const auto want = [&](TensorMemory* memory) {
    wanted.emplace_back(
        [this, memory] { return memory->Reserve(options_.backend, model_, layout_); });
  };
  if (has_copies()) {
    wanted.emplace_back([this] { return parameters_.Reserve(layout_); });
  }
  if (has_copies() || !options_.is_first) {
    want(&gradients_);
  }
  if (!options_.is_last) {
    want(&arrivals_);
  }
  for (const std::function<Status()>& reserve : wanted) {
    const Status status = reserve();
    if (status.code() == StatusCode::kInvalidArgument) {
      const size_t size_bytes = static_cast<size_t>(layout_.element_count()) * sizeof(float);
      return Status::InvalidArgument(fmt::format(
          "the model does not fit into the memory of {}: its parameters and gradients take {} "
          "there without any sample; take a smaller model, or a device with more memory: {}",
          options_.backend->Name(),
          FormatBytes(wanted.size() * size_bytes),
          status.message()));
    }
    PS_TRY(status);
  }
  return Status::Ok();
}

Status Replica::PutClassWeights() {
  const std::vector<float>& weights = model_.loss.class_weights;
  if (weights.empty()) {
    return Status::Ok();
  }
  const size_t size_bytes = weights.size() * sizeof(float);
  PS_ASSIGN(host_class_weights_, options_.backend->AllocatePinned(size_bytes));
  PS_ASSIGN(class_weights_, options_.backend->AllocateDevice(size_bytes));
  std::ranges::copy(weights, host_class_weights_->floats());
  compute_->Upload(host_class_weights_->data(), class_weights_->data(), size_bytes);
  return Status::Ok();
}

Status Replica::MakeLayers() {
  PS_ASSIGN(
      Sequence layers,
      Sequence::Make(
          model_.layers,
          {.backend = options_.backend,
           .stream = compute_.get(),
           .ops = {.seed = options_.seed, .precision = options_.precision}}));
  if (model_.input.channels > 1 && !model_.input.is_flat() && !pictures_) {
    PS_TRY(layers.PrependChannelsLast(model_.input));
  }
  layers_.emplace(std::move(layers));
  return Status::Ok();
}

Status Replica::TakePictures(const PictureFormat& format) {
  PS_ASSIGN(PictureMaker made, PictureMaker::Make(options_.backend, compute_.get(), format));
  pictures_.emplace(std::move(made));
  return MakeLayers();
}

void Replica::Upload(uint32_t tensor, int64_t begin, std::span<const float> values) {
  if (has_copies()) {
    parameters_.Upload(tensor, begin, values);
  }
}

Status Replica::TakeUploads() {
  return has_copies() ? parameters_.Take() : Status::Ok();
}

Status Replica::SettleUploads() {
  return parameters_.SettleUploads();
}

void Replica::TakeParametersOf(Replica* ahead) {
  const std::span<float> to = parameters_.first().all();
  ahead->compute_->Record(ahead->trained_.get());
  copies_->WaitFor(*ahead->trained_);
  copies_->CopyAcross(
      ahead->parameters_.first().all().data(), to.data(), static_cast<int64_t>(to.size()));
  copies_->Record(shared_.get());
  compute_->WaitFor(*shared_);
}

Status Replica::Settle() {
  PS_TRY(Finish());
  return SettleUploads();
}

Status Replica::Finish() {
  PS_TRY(compute_->Synchronize());
  return copies_->Synchronize();
}

Status Replica::Reserve(int64_t n, bool training, size_t pieces) {
  Backend* const backend = options_.backend;
  const auto count = static_cast<size_t>(n);
  const auto elements = static_cast<size_t>(model_.input.element_count());
  PS_TRY(
      pictures_ ? pictures_->Reserve(n)
                : images_.Reserve(backend, count * elements * sizeof(float)));
  const size_t labels = count * static_cast<size_t>(model_.labels);
  PS_TRY(labels_.Reserve(backend, labels * sizeof(uint32_t)));
  const size_t logit_bytes = count * static_cast<size_t>(model_.output_count()) * sizeof(float);
  if (training && !layers_->gives_output_away() &&
      (logit_gradient_ == nullptr || logit_bytes > logit_gradient_->size())) {
    logit_gradient_.reset();
    PS_ASSIGN(logit_gradient_, backend->AllocateDevice(logit_bytes));
  }
  PS_TRY(loss_.Reserve(backend, pieces));
  PS_TRY(numbers_.Reserve(backend, pieces));
  if (training && pieces > 1) {
    PS_TRY(pieces_.Reserve(backend, model_, layout_));
  }
  return layers_->Prepare(n, training);
}

Status Replica::Release() {
  layers_.reset();
  images_ = DeviceCopy();
  if (pictures_) {
    pictures_->Release();
  }
  labels_ = DeviceCopy();
  logit_gradient_.reset();
  pieces_ = TensorMemory();
  return MakeLayers();
}

void Replica::Begin(kernels::ConstSpans parameters, kernels::Spans gradients) {
  read_ = has_copies() ? parameters_.spans() : parameters;
  sums_ = has_copies() || !options_.is_first ? gradients_.spans() : gradients;
  pieces_begun_ = 0;
}

/// Puts a piece on the way.
Replica::Input Replica::PutInput(const Batch& batch, uint64_t step, float weight) {
  numbers_.host()[pieces_begun_] = {step, DivisorOf(model_.loss, batch), weight};
  numbers_.Upload(compute_.get(), pieces_begun_);
  return {
      pictures_ ? pictures_->Run(compute_.get(), batch.bytes, batch.moves)
                : images_.Upload(compute_.get(), batch.images),
      labels_.Upload(compute_.get(), batch.labels),
      static_cast<int64_t>(batch.labels.size())};
}

Pass Replica::MakePass(const Batch& batch) const {
  Pass pass;
  pass.n = static_cast<int64_t>(batch.labels.size()) / model_.labels;
  pass.step = &numbers_.device()->step;
  pass.parameters = read_;
  return pass;
}

void Replica::Train(const Piece& piece) {
  const Input input = PutInput(piece.batch, piece.step, piece.weight);
  StepRecorder::Work work;
  work.pass = [&](const StepRecorder::OnTensors& on_final) { TrainPass(piece, input, on_final); };
  if (piece.behind != nullptr) {
    work.await = [&](uint32_t first_tensor, uint32_t count) {
      const std::vector<uint32_t>& hop_of = piece.behind->hop_of_;
      for (uint32_t i = first_tensor; i < first_tensor + count; ++i) {
        if (i == first_tensor || hop_of[i] != hop_of[i - 1]) {
          compute_->WaitFor(*piece.behind->hops_[hop_of[i]].arrived);
        }
      }
    };
  }
  work.finish = [&](uint32_t first_tensor, uint32_t count) {
    if (piece.behind != nullptr) {
      AddUp(arrivals_.spans(), first_tensor, count);
    }
    if (piece.pack) {
      piece.pack(first_tensor, count);
    }
  };
  work.finish_all = piece.pack_all;
  work.leave = piece.leave;
  if (piece.ahead != nullptr) {
    work.leave = [&](uint32_t first_tensor, uint32_t count) {
      SendTo(*piece.ahead, first_tensor, count);
    };
  }
  if (has_copies()) {
    recorder_->Run(piece.kind, work);
  } else {
    recorder_->RunOnce(work);
  }
  EndPiece();
}

/// Forward and backward. A tensor is final when the last piece has been added to its sum.
void Replica::TrainPass(
    const Piece& piece, const Input& input, const StepRecorder::OnTensors& on_final) {
  Pass pass = MakePass(piece.batch);
  pass.training = true;
  pass.gradients = piece.kind.is_first ? sums_ : pieces_.spans();
  pass.on_gradients = [&](uint32_t first_tensor, uint32_t count) {
    for (size_t i = first_tensor; i < first_tensor + size_t{count} && piece.kind.is_weighed; ++i) {
      const std::span<float> gradient = pass.gradients[i];
      compute_->ScaleBy(
          &numbers_.device()->weight, gradient.data(), static_cast<int64_t>(gradient.size()));
    }
    if (!piece.kind.is_first) {
      AddUp(pass.gradients, first_tensor, count);
    }
    if (piece.kind.is_last) {
      on_final(first_tensor, count);
    }
  };
  const float* const gradient = Forward(pass, input, false);
  layers_->Backward(pass, input.images, gradient, nullptr);
}

void Replica::Evaluate(const Batch& batch) {
  Forward(MakePass(batch), PutInput(batch, 0, 1), model_.counts_near());
  EndPiece();
}

void Replica::Apply(const Batch& batch, std::span<float> outputs) {
  const Input input = PutInput(batch, 0, 1);
  const float* const last = layers_->Forward(MakePass(batch), input.images);
  compute_->Download(last, outputs.data(), outputs.size_bytes());
}

/// Puts the piece's loss on its way.
void Replica::EndPiece() {
  loss_.Download(compute_.get(), pieces_begun_);
  ++pieces_begun_;
}

/// Up to the loss. Returns its gradient by the outputs in training, else nullptr.
const float* Replica::Forward(const Pass& pass, const Input& input, bool counts_near) {
  const float* const logits = layers_->Forward(pass, input.images);
  float* dz = nullptr;
  if (pass.training) {
    dz = layers_->gives_output_away() ? const_cast<float*>(logits) : logit_gradient_->floats();
  }
  compute_->ComputeLoss(
      {.n = model_.RowsOf(input.label_count),
       .classes = model_.classes,
       .logits = logits,
       .labels = input.labels,
       .dz = dz,
       .result = loss_.device(),
       .divisor = &numbers_.device()->divisor,
       .kind = model_.loss.kind,
       .delta = model_.loss.delta,
       .smoothing = model_.loss.smoothing,
       .class_weights = class_weights_ == nullptr ? nullptr : class_weights_->floats(),
       .counts_near = counts_near});
  return dz;
}

/// Adds these tensors' `parts` to the sums.
void Replica::AddUp(kernels::Spans parts, uint32_t first_tensor, uint32_t count) {
  for (size_t i = first_tensor; i < first_tensor + size_t{count}; ++i) {
    const auto size = static_cast<int64_t>(sums_[i].size());
    compute_->Add(sums_[i].data(), parts[i].data(), sums_[i].data(), size);
  }
}

/// Puts these tensors' sums on the way to the device ahead. Each tensor once a minibatch.
void Replica::SendTo(const Replica& ahead, uint32_t first_tensor, uint32_t count) {
  const Hop& hop = hops_[first_tensor];
  compute_->Record(hop.final.get());
  copies_->WaitFor(*hop.final);
  for (uint32_t i = first_tensor; i < first_tensor + count; ++i) {
    copies_->CopyAcross(
        sums_[i].data(), ahead.arrivals_.spans()[i].data(), static_cast<int64_t>(sums_[i].size()));
    hop_of_[i] = first_tensor;
  }
  copies_->Record(hop.arrived.get());
}

Status Replica::WaitForSent(uint32_t tensor) const {
  return hops_[hop_of_[tensor]].arrived->Wait();
}

}  // namespace ps::worker
