#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ps/base/random.h"
#include "ps/proto/chunks.h"
#include "tests/worker/data/data_files.h"
#include "tests/worker/model/model_builder.h"
#include "worker/trainer.h"

namespace ps::worker::test {

/// 20 training and 7 test pictures of 2x3 pixels, enlarged and moved.
inline proto::JobConfig PictureJob(const DataFolder& folder) {
  WriteIdxSet(folder, 20, 7);
  proto::JobConfig config;
  config.data.directory = folder.path();
  config.data.pad = 3;
  config.data.augment = {2, true};
  config.model.layers = {Conv2d(2, 3), Relu(), Flatten(), Linear(3)};
  return config;
}

/// A trainer with memory for parameters and gradients.
class TrainerRig {
 public:
  TrainerRig(
      const proto::JobConfig& config, std::vector<std::shared_ptr<kernels::Backend>> backends)
      : trainer_(Trainer::Make(config, std::move(backends)).value()) {
    const proto::TensorLayout layout(trainer_->TensorElements());
    const auto bytes = static_cast<size_t>(layout.element_count()) * sizeof(float);
    parameters_ = trainer_->MakeBuffer(bytes).value();
    gradient_ = trainer_->MakeBuffer(bytes).value();
    Random random(11);
    std::ranges::fill(gradient(), 0.0F);  // between the tensors nobody writes
    for (float& value : Parameters()) {
      value = static_cast<float>(random.Unit() - 0.5);
    }
    for (size_t i = 0; i < trainer_->TensorElements().size(); ++i) {
      const auto size = static_cast<size_t>(trainer_->TensorElements()[i]);
      const int64_t offset = layout.OffsetOf(i);
      trainer_->Upload({offset, Parameters().subspan(static_cast<size_t>(offset), size)});
    }
    trainer_->Settle();
  }

  double Step(uint64_t begin, uint64_t end) {
    client::ComputeTask task;
    task.begin = begin;
    task.end = end;
    return trainer_
        ->Step(task, {Parameters(), gradient()}, {.on_ready = [](uint32_t /*tensor*/) {}})
        .value()
        .loss_sum;
  }

  /// A step of minibatches of 4.
  Result<client::ComputeResult> TryLocalStep(
      uint64_t begin, uint64_t end, const Trainer::StepWatch& watch = {}) {
    client::ComputeTask task;
    task.step = 1;
    task.begin = begin;
    task.end = end;
    task.minibatch = 4;
    task.local_steps = 3;
    task.is_local = true;
    return trainer_->Step(task, {Parameters(), gradient()}, watch);
  }

  double LocalStep(uint64_t begin, uint64_t end) {
    return TryLocalStep(begin, end).value().loss_sum;
  }

  double Evaluate() { return trainer_->Evaluate(Parameters(), 0, 7).value().loss_sum; }

  /// All tensors' values.
  uint64_t TensorBytes() const {
    int64_t elements = 0;
    for (const int64_t count : trainer_->TensorElements()) {
      elements += count;
    }
    return static_cast<uint64_t>(elements) * sizeof(float);
  }

  size_t TensorCount() const { return trainer_->TensorElements().size(); }

  std::span<float> gradient() { return Floats(&gradient_); }

 private:
  static std::span<float> Floats(Buffer* buffer) {
    return {reinterpret_cast<float*>(buffer->data()), buffer->size() / sizeof(float)};
  }

  std::span<float> Parameters() { return Floats(&parameters_); }

  const std::unique_ptr<Trainer> trainer_;
  Buffer parameters_;
  Buffer gradient_;
};

}  // namespace ps::worker::test
