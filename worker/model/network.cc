// A minibatch is divided among the devices, and on each into pieces that are computed one after
// another (worker/model/replica.h). The first device gets the sums of all gradients. They leave it
// by its second stream as soon as an event says that they are final.

#include "worker/model/network.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/check.h"
#include "worker/model/batch_check.h"
#include "worker/model/device/gradient_return.h"
#include "worker/model/division.h"
#include "worker/model/norm_batches.h"
#include "worker/model/picture_format.h"
#include "worker/model/replica.h"

namespace ps::worker {
namespace {

using kernels::Backend;

/// The loss of n samples that have `labelled` labels, a mean by `divisor`.
BatchLoss LossOf(const kernels::LossResult& loss, int64_t n, int64_t labelled, double divisor) {
  BatchLoss batch{
      loss.loss_sum, loss.correct, n, loss.near, loss.squared_error, loss.absolute_error};
  if (divisor != static_cast<double>(n) && divisor != 0) {
    batch.loss_sum *= static_cast<double>(n) / divisor;
  }
  if (labelled != n && labelled != 0) {
    const double samples_a_label = static_cast<double>(n) / static_cast<double>(labelled);
    batch.correct = std::llround(static_cast<double>(loss.correct) * samples_a_label);
    batch.squared_error *= samples_a_label;
    batch.absolute_error *= samples_a_label;
  }
  return batch;
}

int64_t LabelledOf(const Batch& batch) {
  return static_cast<int64_t>(batch.labels.size()) - std::ranges::count(batch.labels, kNoLabel);
}

}  // namespace

/// The step under way.
struct Network::Step {
  const StepOptions& options;
  const Batch& batch;
  Division division;
  double divisor = 0;
};

Status Network::Build(
    const std::vector<Backend*>& backends, uint64_t seed, kernels::Precision precision) {
  PS_CHECK(!backends.empty());
  for (size_t i = 0; i < backends.size(); ++i) {
    PS_CHECK(backends[i]->is_host_memory() == backends[0]->is_host_memory());
    if (i > 0) {
      backends[i]->Reach(*backends[i - 1]);
    }
    const Replica::Options options{
        .backend = backends[i],
        .seed = seed,
        .precision = precision,
        .is_first = i == 0,
        .is_last = i + 1 == backends.size()};
    PS_ASSIGN(auto replica, Replica::Make(&model_, options));
    replicas_.push_back(std::move(replica));
  }
  PS_ASSIGN(
      GradientReturn made,
      GradientReturn::Make(backends[0], first().compute(), first().copies(), &model_.tensors));
  gradient_return_.emplace(std::move(made));
  const size_t norm_bytes = model_.tensors.size() * sizeof(double);
  PS_ASSIGN(norms_, backends[0]->AllocateDevice(norm_bytes + sizeof(float)));
  return Status::Ok();
}

Status Network::TakePictures(const PictureFormat& format) {
  const Shape& input = model_.input;
  const int64_t height = format.height + 2 * format.pad;
  const int64_t width = format.width + 2 * format.pad;
  const bool fits = format.channels * height * width == input.element_count() &&
                    (format.channels == input.channels || input.is_flat());
  if (!fits || static_cast<int64_t>(format.values.size()) != format.channels) {
    return Status::InvalidArgument(fmt::format(
        "pictures of {}x{}x{} bytes with {} pixels around them, for a model of {}",
        format.channels,
        format.height,
        format.width,
        format.pad,
        input.ToString()));
  }
  for (const auto& replica : replicas_) {
    PS_TRY(replica->TakePictures(format));
  }
  pictures_ = format;
  return Status::Ok();
}

void Network::Upload(uint32_t tensor, int64_t begin, std::span<const float> values) {
  for (const auto& replica : replicas_) {
    replica->Upload(tensor, begin, values);
  }
}

void Network::TakeUploads() {
  upload_failure_ = OfAll([](Replica& replica) { return replica.TakeUploads(); });
}

Status Network::SettleUploads() {
  return OfAll([](Replica& replica) { return replica.SettleUploads(); });
}

Status Network::Settle() {
  return OfAll([](Replica& replica) { return replica.Settle(); });
}

Status Network::Finish() {
  return OfAll([](Replica& replica) { return replica.Finish(); });
}

/// All of them do it; the first failure.
Status Network::OfAll(const std::function<Status(Replica&)>& work) const {
  Status first_failure;
  for (const auto& replica : replicas_) {
    Status status = work(*replica);
    if (first_failure.ok()) {
      first_failure = std::move(status);
    }
  }
  return first_failure;
}

Result<BatchLoss> Network::TrainStep(
    Parameters parameters,
    const Batch& batch,
    const StepOptions& options,
    Gradients gradients,
    const GradientReady& ready) {
  PS_TRY(CheckSizes("gradients", gradients, model_.tensors));
  const Step step{
      options,
      batch,
      Division::Of(
          SamplesOf(batch), replicas_.size(), options.micro_batch, LeastTrainBatch(model_) > 1),
      DivisorOf(model_.loss, batch)};
  const Division& division = step.division;
  PS_TRY(Prepare(parameters, batch, division, true));
  for (size_t i = 0; i < division.devices(); ++i) {
    replicas_[i]->Begin(parameters, gradients);
  }
  Status sent;  // from device to device
  const GradientReady whole = [&](uint32_t tensor) {
    for (size_t i = 1; i < division.devices() && sent.ok(); ++i) {
      sent = replicas_[i]->WaitForSent(tensor);
    }
    if (sent.ok() && ready) {
      ready(tensor);
    }
  };
  Status begun = BeginReturn(gradients, options, whole);
  if (begun.code() == StatusCode::kInvalidArgument && has_second_copy()) {
    PS_TRY(DropSecondCopy(begun));
    begun = BeginReturn(gradients, options, whole);
  }
  PS_TRY(begun);
  if (options.on_begin) {
    options.on_begin();
  }
  for (int64_t offset = 0; offset < division.share; offset += division.piece) {
    StartPieces(step, offset);
  }
  PS_TRY(gradient_return_->Finish());
  PS_TRY(sent);
  PS_ASSIGN(const kernels::LossResult loss, AddLosses(division));
  return LossOf(loss, division.n, LabelledOf(batch), step.divisor);
}

void Network::ShareParameters() {
  for (size_t i = 1; i < replicas_.size(); ++i) {
    replicas_[i]->TakeParametersOf(replicas_[i - 1].get());
  }
}

/// `ready` outlives the step. What leaves encoded is noted as that when it is here.
Status Network::BeginReturn(
    Gradients gradients, const StepOptions& options, const GradientReady& ready) {
  sources_.assign(sums().begin(), sums().end());
  if (options.encodes) {
    gradient_return_->BeginEncoded(sources_, gradients, &*encoder_, &ready);
    return Status::Ok();
  }
  return gradient_return_->Begin(sources_, gradients, options.bf16_gradients, &ready);
}

DeviceEncoder* Network::encoder() {
  if (!encoder_) {
    encoder_.emplace(first().backend(), first().compute(), &model_.tensors);
  }
  return &*encoder_;
}

Status Network::TakeKept(uint32_t tensor, bool is_encoded, std::span<float> gradient) {
  return encoder_->TakeKept(first().copies(), tensor, is_encoded, gradient);
}

Status Network::Return(Gradients gradients, const StepOptions& options) {
  const GradientReady ready = [](uint32_t /*tensor*/) {};
  PS_TRY(BeginReturn(gradients, options, ready));
  const auto count = static_cast<uint32_t>(gradients.size());
  gradient_return_->Pack(0, count);
  gradient_return_->Send(0, count);
  PS_TRY(gradient_return_->Finish());
  return Finish();  // also what goes from device to device
}

Result<BatchLoss> Network::Evaluate(Parameters parameters, const Batch& batch) {
  const Division division = Division::Of(SamplesOf(batch), replicas_.size(), 0);
  PS_TRY(Prepare(parameters, batch, division, false));
  for (size_t i = 0; i < division.devices(); ++i) {
    replicas_[i]->Begin(parameters, {});
    replicas_[i]->Evaluate(PieceOf(batch, division.RangeOf(i, 0)));
  }
  PS_ASSIGN(const kernels::LossResult loss, AddLosses(division));
  return LossOf(loss, division.n, LabelledOf(batch), DivisorOf(model_.loss, batch));
}

Status Network::Apply(Parameters parameters, const Batch& batch, std::span<float> outputs) {
  const auto sample = static_cast<size_t>(model_.output_count());
  const int64_t n = SamplesOf(batch);
  if (outputs.size() != static_cast<size_t>(n) * sample) {
    return Status::InvalidArgument(
        fmt::format("memory for {} outputs of {} samples with {} each", outputs.size(), n, sample));
  }
  const Division division = Division::Of(n, replicas_.size(), 0);
  PS_TRY(Prepare(parameters, batch, division, false));
  for (size_t i = 0; i < division.devices(); ++i) {
    const PieceRange range = division.RangeOf(i, 0);
    const auto count = static_cast<size_t>(range.end - range.begin);
    replicas_[i]->Begin(parameters, {});
    replicas_[i]->Apply(
        PieceOf(batch, range),
        outputs.subspan(static_cast<size_t>(range.begin) * sample, count * sample));
  }
  return Finish();
}

Batch Network::PieceOf(const Batch& batch, const PieceRange& range) const {
  const auto elements = static_cast<size_t>(model_.input.element_count());
  const auto labels = static_cast<size_t>(model_.labels);
  const auto from = static_cast<size_t>(range.begin);
  const auto count = static_cast<size_t>(range.end - range.begin);
  const std::span<const uint32_t> own_labels = batch.labels.subspan(from * labels, count * labels);
  if (!pictures_) {
    return {batch.images.subspan(from * elements, count * elements), own_labels};
  }
  const auto bytes = static_cast<size_t>(pictures_->byte_count());
  return {
      {},
      own_labels,
      batch.bytes.subspan(from * bytes, count * bytes),
      batch.moves.subspan(from, count)};
}

void Network::StartPieces(const Step& step, int64_t offset) {
  for (size_t i = step.division.devices(); i-- > 0;) {
    const PieceRange range = step.division.RangeOf(i, offset);
    if (range.begin == range.end) {
      continue;  // of a share that is shorter
    }
    replicas_[i]->Train(MakePiece(step, i, range));
  }
}

Replica::Piece Network::MakePiece(const Step& step, size_t device, const PieceRange& range) {
  const Division& division = step.division;
  const PieceRange share = division.ShareOf(device);
  Replica::Piece piece;
  piece.batch = PieceOf(step.batch, range);
  piece.step = step.options.step + static_cast<uint64_t>(range.begin);
  piece.weight = WeightOf(step, piece.batch);
  piece.kind = {
      .n = range.end - range.begin,
      .is_first = range.begin == share.begin,
      .is_last = range.end == share.end,
      .is_weighed = range.end - range.begin < division.n};
  if (!piece.kind.is_last) {
    return piece;
  }
  if (device + 1 < division.devices()) {
    piece.kind.adds_behind = true;
    piece.behind = replicas_[device + 1].get();
  }
  if (device > 0) {
    piece.ahead = replicas_[device - 1].get();
    return piece;
  }
  const float clip_norm = step.options.clip_norm;
  piece.kind.clip_norm = clip_norm;
  piece.kind.bf16_gradients = step.options.bf16_gradients;
  piece.kind.encoding = step.options.encodes ? encoder_->version() : 0;
  if (clip_norm > 0) {
    piece.pack_all = [this, clip_norm] { ClipAndPack(first().sums(), clip_norm); };
  } else {
    piece.pack = [this](uint32_t first_tensor, uint32_t count) {
      gradient_return_->Pack(first_tensor, count);
    };
  }
  piece.leave = [this, stays = step.options.stays](uint32_t first_tensor, uint32_t count) {
    if (!stays) {
      gradient_return_->Send(first_tensor, count);
    }
  };
  return piece;
}

float Network::WeightOf(const Step& step, const Batch& piece) const {
  if (step.divisor == 0) {
    return static_cast<float>(
        static_cast<double>(SamplesOf(piece)) / static_cast<double>(step.division.n));
  }
  // A piece of labels that weigh nothing is a mean over its rows: smoothing leaves it a gradient.
  const double own = DivisorOf(model_.loss, piece);
  const auto rows = static_cast<double>(model_.RowsOf(static_cast<int64_t>(piece.labels.size())));
  return static_cast<float>((own == 0 ? rows : own) / step.divisor);
}

Result<kernels::LossResult> Network::AddLosses(const Division& division) {
  PS_TRY(Finish());
  kernels::LossResult sum;
  for (size_t i = 0; i < division.devices(); ++i) {
    for (const kernels::LossResult& loss : replicas_[i]->losses()) {
      sum.loss_sum += loss.loss_sum;
      sum.correct += loss.correct;
      sum.near += loss.near;
      sum.squared_error += loss.squared_error;
      sum.absolute_error += loss.absolute_error;
    }
  }
  return sum;
}

Status Network::Prepare(
    Parameters parameters, const Batch& batch, const Division& division, bool training) {
  PS_TRY(CheckSizes("parameters", parameters, model_.tensors));
  PS_TRY(CheckBatch(model_, pictures_ ? &*pictures_ : nullptr, batch, division.n));
  PS_TRY(upload_failure_);
  return MakeRoomFor(division, training);
}

void Network::ClipAndPack(Gradients gradients, float norm_max) {
  auto* const squares = reinterpret_cast<double*>(norms_->data());
  auto* const factor = reinterpret_cast<float*>(squares + gradients.size());
  std::vector<std::span<float>> clipped;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (model_.tensors[i].rule == UpdateRule::kOptimizer && !model_.TreatmentOf(i).is_frozen) {
      const auto size = static_cast<int64_t>(gradients[i].size());
      first().compute()->SquaredNorm(gradients[i].data(), size, squares + clipped.size());
      clipped.push_back(gradients[i]);
    }
  }
  first().compute()->ClipFactor(squares, static_cast<int64_t>(clipped.size()), norm_max, factor);
  for (const std::span<float> gradient : clipped) {
    first().compute()->ScaleBy(factor, gradient.data(), static_cast<int64_t>(gradient.size()));
  }
  gradient_return_->Pack(0, static_cast<uint32_t>(gradients.size()));
}

Result<std::unique_ptr<Network>> Network::Make(
    const Model& model,
    const std::vector<Backend*>& backends,
    uint64_t seed,
    kernels::Precision precision) {
  std::unique_ptr<Network> network(new Network(model));
  PS_TRY(network->Build(backends, seed, precision));
  return network;
}

void Network::UploadAll(Parameters parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    Upload(static_cast<uint32_t>(i), 0, parameters[i]);
  }
  TakeUploads();
}

}  // namespace ps::worker
