#include "worker/model/model_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "tests/worker/model/network_rig.h"

namespace ps::worker::test {
namespace {

/// The CPU's, and how much of its memory was taken.
class CountingBackend final : public kernels::Backend {
 public:
  std::string Name() const override { return cpu_->Name(); }

  bool is_host_memory() const override { return cpu_->is_host_memory(); }

  void Reach(const Backend& other) override { cpu_->Reach(other); }

  Result<std::unique_ptr<kernels::Memory>> AllocateDevice(size_t size_bytes) override {
    bytes += size_bytes;
    return cpu_->AllocateDevice(size_bytes);
  }

  Result<std::unique_ptr<kernels::Memory>> AllocatePinned(size_t size_bytes) override {
    return cpu_->AllocatePinned(size_bytes);
  }

  Result<std::unique_ptr<kernels::Stream>> MakeStream() override { return cpu_->MakeStream(); }

  Result<std::unique_ptr<kernels::Event>> MakeEvent() override { return cpu_->MakeEvent(); }

  uint64_t bytes = 0;

 private:
  const std::unique_ptr<kernels::Backend> cpu_ = kernels::MakeCpuBackend();
};

/// What a network takes besides: losses, the step's numbers, norms of the tensors.
constexpr uint64_t kBesides = 4096;

void ExpectTaken(uint64_t taken, const DeviceMemory& said, const std::string& what) {
  EXPECT_GE(taken, said.total()) << what;
  EXPECT_LE(taken, said.total() + kBesides) << what;
}

std::vector<std::pair<proto::ModelConfig, Shape>> Models() {
  std::vector<std::pair<proto::ModelConfig, Shape>> models(5);
  models[0].first.layers = {
      Conv2d(8, 3),
      BatchNorm(),
      Relu(),
      MaxPool(2),
      Residual({Conv2d(16, 3, 2), Relu(), Conv2d(16, 3)}, {Conv2d(16, 1, 2)}),
      Relu(),
      Residual({Grouped(16, Conv2d(16, 3)), Relu(), Dropout(0.1F)}, {}),
      Flatten(),
      Linear(40),
      Relu(),
      Dropout(0.5F),
      Linear(3)};
  models[0].second = {3, 12, 12};
  models[1].first.name = "mlp";
  models[1].second = {1, 8, 8};
  models[2].first.name = "gpt";
  models[2].first.depth = 2;
  models[2].first.width = 16;
  models[2].second = {1, 12, 1, ShapeKind::kTokens, 3};
  // Only where nobody reads the outputs again the loss's gradient takes their place.
  models[3].first.layers = {Flatten(), Linear(3), Tanh()};
  models[3].second = {1, 8, 8};
  models[4].first.layers = {Flatten(), Linear(3), Residual({Linear(3), Tanh()}, {})};
  models[4].second = {1, 8, 8};
  return models;
}

TEST(ModelMemoryTest, ItIsWhatAStepTakes) {
  kernels::SetComputeThreads(1);
  constexpr int64_t kSamples = 10;
  for (const auto& [config, input] : Models()) {
    for (const int64_t micro : {0, 4}) {
      for (const bool is_rounded : {false, true}) {
        CountingBackend backend;
        NetworkRig rig(&backend, config, input, kSamples, 3);
        ASSERT_TRUE(rig.Step({.step = 1, .micro_batch = micro, .bf16_gradients = is_rounded}).ok());
        const MemoryUse use{
            .samples = micro == 0 ? kSamples : micro,
            .adds_pieces = micro > 0,
            .bf16_gradients = is_rounded};
        const std::string what = config.name + " in " + std::to_string(micro);
        ExpectTaken(backend.bytes, MemoryOf(rig.model, use), what);
      }
    }
  }
}

TEST(ModelMemoryTest, EachDeviceOfARowHasWhatItTakes) {
  kernels::SetComputeThreads(1);
  for (const auto& [config, input] : Models()) {
    CountingBackend backends[3];
    NetworkRig rig({&backends[0], &backends[1], &backends[2]}, config, input, 12, 3);
    ASSERT_TRUE(rig.Step({.step = 1, .bf16_gradients = true}).ok());
    for (size_t i = 0; i < std::size(backends); ++i) {
      const MemoryUse use{
          .samples = 4, .is_first = i == 0, .is_last = i == 2, .bf16_gradients = true};
      ExpectTaken(backends[i].bytes, MemoryOf(rig.model, use), config.name + std::to_string(i));
    }
  }
}

TEST(ModelMemoryTest, OutputsAreThereOnce) {
  kernels::SetComputeThreads(1);
  proto::ModelConfig config;
  config.layers = {Flatten(), Linear(2000)};
  CountingBackend backend;
  NetworkRig rig(&backend, config, {1, 3, 3}, 20, 2000);
  ASSERT_TRUE(rig.Step().ok());
  ExpectTaken(backend.bytes, MemoryOf(rig.model, {.samples = 20}), "many classes");
  EXPECT_LT(backend.bytes, 2 * 20 * 2000 * sizeof(float));
}

TEST(ModelMemoryTest, AWorkerHasItsParametersAndOneOrTwoGradients) {
  proto::ModelConfig config;
  config.layers = {Linear(16)};
  const Model model = MakeModel(config, {64, 1, 1}, 16).value();
  EXPECT_EQ(HostTensorBytes(model, 1), 2 * (64 * 16 + 16) * sizeof(float));
  EXPECT_EQ(HostTensorBytes(model, 2), 3 * (64 * 16 + 16) * sizeof(float));
}

}  // namespace
}  // namespace ps::worker::test
