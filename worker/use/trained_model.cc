#include "worker/use/trained_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "checkpoint/model/safetensors.h"
#include "checkpoint/model/tensor_match.h"
#include "ps/base/random.h"
#include "ps/proto/chunks.h"
#include "worker/model/metric_sums.h"

namespace ps::worker {
namespace {

constexpr uint64_t kBatchSamplesMax = 256;
/// Values of the largest layer, for all samples of a batch: 256 MiB.
constexpr int64_t kBatchValues = int64_t{1} << 26;

/// The largest of a sample's values between two layers.
int64_t LargestOf(const std::vector<Layer>& layers) {
  int64_t largest = 1;
  for (const Layer& layer : layers) {
    largest = std::max(
        {largest,
         layer.in.element_count(),
         layer.out.element_count(),
         LargestOf(layer.body),
         LargestOf(layer.shortcut)});
  }
  return largest;
}

}  // namespace

Result<std::unique_ptr<TrainedModel>> TrainedModel::Load(
    const std::string& file,
    const ModelCard& card,
    const std::vector<kernels::Backend*>& backends) {
  PS_ASSIGN(Model model, ModelOf(card));
  std::unique_ptr<TrainedModel> loaded(
      new TrainedModel(std::move(model), card.target_means, backends.front()));
  PS_TRY(loaded->ReadValues(file));
  PS_ASSIGN(loaded->network_, Network::Make(loaded->model_, backends, 1));
  loaded->network_->UploadAll(loaded->values_);
  PS_TRY(loaded->network_->Settle());
  PS_TRY(loaded->ReserveBatch());
  return loaded;
}

Status TrainedModel::ReadValues(const std::string& file) {
  PS_ASSIGN(const checkpoint::SafetensorsReader reader, checkpoint::SafetensorsReader::Open(file));
  PS_ASSIGN(
      const checkpoint::TensorMatch match,
      checkpoint::MatchTensors(reader.header(), model_.tensors, checkpoint::TakeRule::kAll)
          .Annotate(file + " and the layers of its model do not fit"));
  std::vector<int64_t> elements;
  for (const TensorSpec& tensor : model_.tensors) {
    elements.push_back(tensor.element_count());
  }
  const proto::TensorLayout layout(elements);
  PS_ASSIGN(
      parameters_,
      backend_.AllocatePinned(static_cast<size_t>(layout.element_count()) * sizeof(float)));
  for (size_t i = 0; i < elements.size(); ++i) {
    const std::span<float> own(
        parameters_->floats() + layout.OffsetOf(i), static_cast<size_t>(elements[i]));
    PS_TRY(reader.Read(*match.stored[i], 0, own));
    values_.emplace_back(own);
  }
  return Status::Ok();
}

Status TrainedModel::ReserveBatch() {
  const int64_t outputs = model_.output_count();
  const int64_t largest = std::max(LargestOf(model_.layers), outputs);
  batch_samples_ =
      std::clamp<uint64_t>(static_cast<uint64_t>(kBatchValues / largest), 1, kBatchSamplesMax);
  const auto bytes = [this](int64_t values) {
    return batch_samples_ * static_cast<uint64_t>(values) * sizeof(float);
  };
  static_assert(sizeof(uint32_t) == sizeof(float));
  PS_ASSIGN(images_, backend_.AllocatePinned(bytes(model_.input.element_count())));
  PS_ASSIGN(labels_, backend_.AllocatePinned(bytes(model_.labels)));
  PS_ASSIGN(outputs_, backend_.AllocatePinned(bytes(outputs)));
  return Status::Ok();
}

Result<Batch> TrainedModel::Fetch(const Inputs& inputs, uint64_t begin, uint64_t end) {
  const auto size = static_cast<size_t>(model_.input.element_count());
  const auto labels = static_cast<size_t>(model_.labels);
  const uint64_t n = end - begin;
  const std::span<float> all_images(images_->floats(), n * size);
  const std::span<uint32_t> all_labels(reinterpret_cast<uint32_t*>(labels_->data()), n * labels);
  for (uint64_t i = 0; i < n; ++i) {
    PS_TRY(inputs.samples->Read(
        begin + i,
        Mix64(begin + i),  // as Dataset::FetchTest
        all_images.subspan(i * size, size),
        all_labels.subspan(i * labels, labels)));
  }
  last_labels_ = all_labels;
  return Batch{all_images, all_labels};
}

Result<BatchLoss> TrainedModel::Evaluate(
    const Inputs& inputs, uint64_t begin, uint64_t end, proto::MetricSums* sums) {
  PS_ASSIGN(const Batch batch, Fetch(inputs, begin, end));
  PS_ASSIGN(const BatchLoss loss, network_->Evaluate(values_, batch));
  AddMetrics(model_, loss, batch.labels, target_means_, sums);
  return loss;
}

Result<std::span<const float>> TrainedModel::Apply(
    const Inputs& inputs, uint64_t begin, uint64_t end) {
  PS_ASSIGN(const Batch batch, Fetch(inputs, begin, end));
  return ApplyBatch(batch, end - begin);
}

Result<std::span<const float>> TrainedModel::Apply(std::span<const float> input) {
  std::ranges::copy(input, images_->floats());
  const auto labels = static_cast<size_t>(model_.labels);
  const std::span<uint32_t> all_labels(reinterpret_cast<uint32_t*>(labels_->data()), labels);
  std::ranges::fill(all_labels, 0);
  return ApplyBatch(Batch{{images_->floats(), input.size()}, all_labels}, 1);
}

Result<std::span<const float>> TrainedModel::ApplyBatch(const Batch& batch, uint64_t samples) {
  const std::span<float> outputs(
      outputs_->floats(), samples * static_cast<size_t>(model_.output_count()));
  PS_TRY(network_->Apply(values_, batch, outputs));
  return std::span<const float>(outputs);
}

double Sigmoid(float output) {
  return 1 / (1 + std::exp(-static_cast<double>(output)));
}

bool Softmax(std::span<const float> outputs, std::vector<double>* probabilities) {
  const double largest = *std::ranges::max_element(outputs);
  probabilities->clear();
  double sum = 0;
  for (const float output : outputs) {
    probabilities->push_back(std::exp(static_cast<double>(output) - largest));
    sum += probabilities->back();
  }
  for (double& probability : *probabilities) {
    probability /= sum;
  }
  return std::isfinite(sum);
}

}  // namespace ps::worker
