#include <gtest/gtest.h>

#include <memory>

#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/model/network_rig.h"
#include "worker/model/model_memory.h"

namespace ps::worker::test {
namespace {

/// What is no part of the figure: the parts that sums over many rows are made of, and the like.
constexpr double kBesides = 0.12;

/// cuBLASLt's, of a replica's stream of arithmetic; those of copies have none.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

struct ModelOnDevice {
  const char* model;
  Shape input;
  int64_t n;
  Network::StepOptions options;
  kernels::Precision precision = kernels::Precision::kF32;
};

/// `psctl model` says so.
TEST(ModelMemoryOnDeviceTest, AStepFitsIntoWhatIsSaidAndNotIntoMuchLess) {
  cuda_emulation::SetComputeCapability(8, 0);
  const ModelOnDevice cases[] = {
      {"mlp", {1, 16, 16}, 64, {.step = 1}},
      {"mlp", {1, 16, 16}, 64, {.step = 1, .micro_batch = 24, .bf16_gradients = true}},
      {"cnn", {1, 12, 12}, 6, {.step = 1}},
      {"gpt", {1, 16, 1, ShapeKind::kTokens, 64}, 6, {.step = 1, .bf16_gradients = true}},
      {"gpt", {1, 16, 1, ShapeKind::kTokens, 64}, 6, {.step = 1}, kernels::Precision::kBf16}};
  for (const ModelOnDevice& c : cases) {
    proto::ModelConfig config;
    config.name = c.model;
    config.depth = 1;
    config.width = 64;
    const int64_t micro = c.options.micro_batch;
    bool has_second_copy = false;
    const auto is_enough = [&](double factor) {
      const bool is_bf16 = c.precision == kernels::Precision::kBf16;
      const auto kind = is_bf16 ? kernels::GemmKind::kCublas : kernels::GemmKind::kOwn;
      const auto cuda = kernels::MakeCudaBackend(0, kind).value();
      NetworkRig rig(cuda.get(), config, c.input, c.n, 10, c.precision);
      if (has_second_copy) {
        EXPECT_TRUE(rig.network->ReserveSecondCopy().ok());
      }
      const MemoryUse use{
          .samples = micro == 0 ? c.n : micro,
          .has_own_memory = true,
          .has_second_copy = has_second_copy,
          .adds_pieces = micro > 0,
          .bf16_gradients = c.options.bf16_gradients,
          .bf16_products = is_bf16};
      const auto said = static_cast<double>(MemoryOf(rig.model, use).total());
      const size_t workspace = is_bf16 ? kWorkspaceBytes : 0;
      cuda_emulation::SetDeviceMemory(static_cast<size_t>(factor * said) + workspace);
      const bool is_done = rig.Step(c.options).ok();
      cuda_emulation::SetDeviceMemory(0);
      return is_done && rig.network->has_second_copy() == has_second_copy;
    };
    for (const bool second : {false, true}) {
      has_second_copy = second;
      EXPECT_TRUE(is_enough(1 + kBesides)) << c.model;
      EXPECT_FALSE(is_enough(1 - kBesides)) << c.model;
    }
  }
  cuda_emulation::SetComputeCapability(7, 5);
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

}  // namespace
}  // namespace ps::worker::test
