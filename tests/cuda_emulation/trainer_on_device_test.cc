#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "ps/base/random.h"
#include "ps/proto/chunks.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/data/data_files.h"
#include "tests/worker/model/model_builder.h"
#include "worker/trainer.h"

// A worker's steps from its data files on, by the sources of kernels/cuda, against kernels/cpu.

namespace ps::worker::test {
namespace {

/// 20 training and 7 test pictures of 2x3 pixels, enlarged and moved.
proto::JobConfig PictureJob(const DataFolder& folder) {
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
  TrainerRig(const proto::JobConfig& config, std::shared_ptr<kernels::Backend> backend)
      : trainer_(Trainer::Make(config, {std::move(backend)}).value()) {
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
  double LocalStep(uint64_t begin, uint64_t end) {
    client::ComputeTask task;
    task.begin = begin;
    task.end = end;
    task.minibatch = 4;
    task.local_steps = 3;
    return trainer_->Step(task, {Parameters(), gradient()}, {}).value().loss_sum;
  }

  double Evaluate() { return trainer_->Evaluate(Parameters(), 0, 7).value().loss_sum; }

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

std::shared_ptr<kernels::Backend> MakeEmulatedDevice() {
  return kernels::MakeCudaBackend(0, kernels::GemmKind::kOwn).value();
}

TEST(TrainerOnDeviceTest, PicturesTravelAsBytesAndBecomeThoseOfTheCpu) {
  const DataFolder folder;
  const proto::JobConfig config = PictureJob(folder);
  TrainerRig cpu(config, kernels::MakeCpuBackend());
  TrainerRig device(config, MakeEmulatedDevice());
  cuda_emulation::TakeTraffic();
  const double loss = device.Step(3, 11);
  // For each sample 2x3 bytes, its label and its move; for the step three numbers.
  EXPECT_EQ(cuda_emulation::TakeTraffic().uploaded, 8 * (2 * 3 + sizeof(uint32_t) + 12) + 24);
  EXPECT_NEAR(loss, cpu.Step(3, 11), 1e-4);
  for (size_t i = 0; i < cpu.gradient().size(); ++i) {
    EXPECT_NEAR(device.gradient()[i], cpu.gradient()[i], 1e-4) << i;
  }
  EXPECT_NEAR(device.Evaluate(), cpu.Evaluate(), 1e-4);
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

/// The device has the worker's own parameters meanwhile, and the servers' again afterwards.
TEST(TrainerOnDeviceTest, LocalStepsAreThoseOfTheCpu) {
  const DataFolder folder;
  proto::JobConfig config = PictureJob(folder);
  config.train.minibatch = 4;
  config.train.local_steps = 3;
  config.optimizer.lr = 0.1F;
  config.optimizer.momentum = 0.9F;
  TrainerRig cpu(config, kernels::MakeCpuBackend());
  TrainerRig device(config, MakeEmulatedDevice());
  const double before = device.Evaluate();
  for (int round = 0; round < 2; ++round) {
    EXPECT_NEAR(device.LocalStep(3, 13), cpu.LocalStep(3, 13), 1e-3);
    for (size_t i = 0; i < cpu.gradient().size(); ++i) {
      EXPECT_NEAR(device.gradient()[i], cpu.gradient()[i], 1e-4) << i;
    }
  }
  EXPECT_EQ(device.Evaluate(), before);
  device.LocalStep(3, 13);
  EXPECT_NEAR(device.Step(3, 11), cpu.Step(3, 11), 1e-4);
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

}  // namespace
}  // namespace ps::worker::test
