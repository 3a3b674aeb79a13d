#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "worker/data/npy_file.h"
#include "worker/model/model.h"
#include "worker/model/network.h"

namespace ps::worker::test {
namespace {

// tests/data/gpt was made by PyTorch: scripts/golden_gpt.py.

constexpr int64_t kGoldenTokens = 7;
constexpr int64_t kGoldenVocabulary = 11;

NpyFile Golden(const std::string& name) {
  return NpyFile::Open("tests/data/gpt/" + name + ".npy").value();
}

/// The tensors of the model one behind the other, cut apart.
std::vector<std::vector<float>> GoldenTensors(const Model& model, const std::string& name) {
  const NpyFile file = Golden(name);
  std::vector<std::vector<float>> tensors;
  uint64_t at = 0;
  for (const TensorSpec& spec : model.tensors) {
    std::vector<float>& values = tensors.emplace_back();
    for (int64_t i = 0; i < spec.element_count(); ++i) {
      values.push_back(file.FloatAt(at++));
    }
  }
  EXPECT_EQ(at, file.rows()) << name;
  return tensors;
}

TEST(GoldenGptTest, LossAndGradientsAreThoseOfPyTorch) {
  kernels::SetComputeThreads(1);
  proto::ModelConfig config;
  config.name = "gpt";
  config.depth = 2;
  config.heads = 2;
  config.width = 8;
  const Shape input{1, kGoldenTokens, 1, ShapeKind::kTokens, kGoldenVocabulary};
  const Model model = MakeModel(config, input, kGoldenVocabulary, kGoldenTokens).value();
  const auto parameters = GoldenTensors(model, "parameters");
  const auto expected = GoldenTensors(model, "gradients");
  const NpyFile tokens = Golden("tokens");
  std::vector<float> inputs;
  std::vector<uint32_t> labels;
  for (uint64_t sample = 0; sample < tokens.rows(); ++sample) {
    for (uint64_t i = 0; i < static_cast<uint64_t>(kGoldenTokens); ++i) {
      const uint64_t at = sample * tokens.row_size() + i;
      inputs.push_back(static_cast<float>(tokens.WholeAt(at)));
      labels.push_back(static_cast<uint32_t>(tokens.WholeAt(at + 1)));
    }
  }
  std::vector<std::vector<float>> gradients = expected;
  const std::vector<std::span<const float>> p(parameters.begin(), parameters.end());
  const std::vector<std::span<float>> g(gradients.begin(), gradients.end());
  // Its memory is the host's, so nothing needs to be pinned.
  const std::unique_ptr<kernels::Backend> backend = kernels::MakeCpuBackend();
  const auto network = Network::Make(model, backend.get(), 1).value();
  const Result<BatchLoss> loss =
      network->TrainStep(p, {inputs, labels}, {.step = 1}, g, [](uint32_t /*tensor*/) {});
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_NEAR(loss->loss_sum / static_cast<double>(loss->samples), Golden("loss").FloatAt(0), 1e-5);
  for (size_t t = 0; t < gradients.size(); ++t) {
    for (size_t i = 0; i < gradients[t].size(); ++i) {
      EXPECT_NEAR(gradients[t][i], expected[t][i], 2e-5) << model.tensors[t].name << " " << i;
    }
  }
}

}  // namespace
}  // namespace ps::worker::test
