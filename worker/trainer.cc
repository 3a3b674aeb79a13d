#include "worker/trainer.h"

#include <algorithm>
#include <utility>

#include "ps/proto/chunks.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"
#include "worker/model/network.h"

namespace ps::worker {
namespace {

/// Test samples are taken this many at a time, whatever the range, so that one plan serves them
/// all.
constexpr uint64_t kEvaluateBatch = 250;

class CpuTrainer final : public Trainer {
 public:
  CpuTrainer(const proto::JobConfig& config, Dataset dataset, Model model)
      : config_(config),
        dataset_(std::move(dataset)),
        model_(std::move(model)),
        network_(Network::Make(model_, config.train.seed)) {
    for (const TensorSpec& tensor : model_.tensors) {
      elements_.push_back(tensor.element_count());
    }
    layout_ = proto::TensorLayout(elements_);
  }

  std::vector<int64_t> TensorElements() const override { return elements_; }

  const proto::DatasetFingerprint& data() const override { return dataset_.fingerprint(); }

  Result<client::ComputeResult> Step(
      const client::ComputeTask& task, const std::function<void(uint32_t)>& ready) override {
    const SampleRange range{task.begin, task.end};
    const BatchMemory memory = Memory(range.end - range.begin);
    const EpochOrder order(config_.train.seed, task.epoch, dataset_.info().train_count);
    PS_TRY(dataset_.FetchTrain(order, range, memory));
    Split(task.parameters, &parameters_);
    Split(task.gradient, &gradients_);
    const bool is_clipped = config_.optimizer.clip_norm > 0;
    // Dropout differs from step to step and from worker to worker, and is the same when repeated.
    const uint64_t dropout_step = (uint64_t{task.epoch} << 40) ^ task.begin;
    PS_ASSIGN(
        const BatchLoss loss,
        network_->TrainStep(
            parameters_,
            {memory.images, memory.labels},
            dropout_step,
            gradients_,
            is_clipped ? Network::GradientReady([](uint32_t) {}) : Network::GradientReady(ready)));
    if (is_clipped) {
      ClipGradientNorm(model_, gradients_, config_.optimizer.clip_norm);
    }
    return client::ComputeResult{loss.loss_sum, static_cast<uint64_t>(loss.correct), 0};
  }

  Result<client::ComputeResult> Evaluate(
      std::span<const float> parameters, uint64_t begin, uint64_t end) override {
    Split(parameters, &parameters_);
    client::ComputeResult result;
    for (uint64_t at = begin; at < end; at += kEvaluateBatch) {
      const SampleRange range{at, std::min(at + kEvaluateBatch, end)};
      const BatchMemory memory = Memory(range.end - range.begin);
      PS_TRY(dataset_.FetchTest(range, memory));
      PS_ASSIGN(
          const BatchLoss loss, network_->Evaluate(parameters_, {memory.images, memory.labels}));
      result.loss_sum += loss.loss_sum;
      result.correct += static_cast<uint64_t>(loss.correct);
    }
    return result;
  }

 private:
  BatchMemory Memory(uint64_t samples) {
    const auto elements = static_cast<uint64_t>(dataset_.info().shape.element_count());
    images_.resize(std::max(images_.size(), samples * elements));
    labels_.resize(std::max(labels_.size(), samples));
    return {std::span(images_).first(samples * elements), std::span(labels_).first(samples)};
  }

  /// Spans of the tensors within a flat buffer of proto::TensorLayout.
  template <typename T>
  void Split(std::span<T> flat, std::vector<std::span<T>>* tensors) const {
    tensors->clear();
    for (size_t i = 0; i < elements_.size(); ++i) {
      tensors->push_back(flat.subspan(
          static_cast<size_t>(layout_.OffsetOf(i)), static_cast<size_t>(elements_[i])));
    }
  }

  // Constant after construction.
  const proto::JobConfig config_;
  const Dataset dataset_;
  const Model model_;
  const std::unique_ptr<Network> network_;
  std::vector<int64_t> elements_;
  proto::TensorLayout layout_;
  // Scratch, grown to the largest batch.
  std::vector<float> images_;
  std::vector<uint32_t> labels_;
  std::vector<std::span<const float>> parameters_;
  std::vector<std::span<float>> gradients_;
};

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::Make(const proto::JobConfig& config) {
  PS_ASSIGN(Dataset dataset, Dataset::Load(config.data));
  PS_ASSIGN(Model model, MakeModel(config.model, dataset.info().shape, dataset.info().classes));
  return std::unique_ptr<Trainer>(
      std::make_unique<CpuTrainer>(config, std::move(dataset), std::move(model)));
}

}  // namespace ps::worker
