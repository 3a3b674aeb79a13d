#include <gtest/gtest.h>

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/threads.h"
#include "tests/kernels/op_runner.h"
#include "tests/worker/model/model_builder.h"
#include "tests/worker/model/network_rig.h"
#include "worker/data/npy/npy_file.h"
#include "worker/model/device/device_copy.h"
#include "worker/model/model.h"
#include "worker/model/sequence.h"

namespace ps::worker::test {
namespace {

// tests/data/gpt, bert, resnet and separable were made by PyTorch: scripts/golden_models.py.
// Computed on the CPU, and in tests/cuda_emulation by the kernels for a GPU.

constexpr int64_t kGoldenTokens = 7;
constexpr int64_t kGoldenVocabulary = 11;
// Embedding, then attention and feed-forward of two blocks, norm, logits.
constexpr size_t kGoldenTextLayers[] = {1, 2, 3, 4, 5, 6, 7};
constexpr Shape kGoldenText{1, kGoldenTokens, 1, ShapeKind::kTokens, kGoldenVocabulary};

NpyFile Golden(const std::string& model, const std::string& name) {
  return NpyFile::Open("tests/data/" + model + "/" + name + ".npy").value();
}

/// The tensors of the model one behind the other, cut apart.
std::vector<std::vector<float>> GoldenTensors(
    const Model& model, const std::string& folder, const std::string& name) {
  const NpyFile file = Golden(folder, name);
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

/// What the layers make of samples in training, as it is in memory: channels last.
std::vector<float> ActivationsOf(
    const std::vector<Layer>& layers, const NetworkRig& rig, const std::vector<float>& inputs) {
  const auto stream = rig.backend->MakeStream().value();
  Sequence sequence =
      Sequence::Make(layers, {.backend = rig.backend, .stream = stream.get(), .ops = {}}).value();
  const Shape& shape = rig.model.input;
  if (shape.kind == ShapeKind::kImage) {
    PS_CHECK(sequence.PrependChannelsLast(shape).ok());
  }
  Pass pass;
  pass.n = static_cast<int64_t>(inputs.size()) / shape.element_count();
  pass.training = true;
  PS_CHECK(sequence.Prepare(pass.n, pass.training).ok());
  std::vector<PinnedValues<float>> pinned;
  std::vector<DeviceCopy> copies;
  const auto put = [&](const std::vector<float>& values) {
    const std::span<const float> from = pinned.emplace_back(rig.backend, values).span();
    PS_CHECK(copies.emplace_back().Reserve(rig.backend, from.size_bytes()).ok());
    return std::span<const float>(copies.back().Upload(stream.get(), from), from.size());
  };
  std::vector<std::span<const float>> parameters;
  for (const std::vector<float>& values : rig.parameters) {
    parameters.push_back(put(values));
  }
  pass.parameters = parameters;
  const float* const y = sequence.Forward(pass, put(inputs).data());
  const PinnedValues<float> found(
      rig.backend,
      std::vector<float>(static_cast<size_t>(pass.n * layers.back().out.element_count())));
  stream->Download(y, found.span().data(), found.span().size_bytes());
  PS_CHECK(stream->Synchronize().ok());
  return {found.span().begin(), found.span().end()};
}

/// PyTorch's activations behind so many layers each. Asked for fewer layers, an op may end in relu
/// or not, as it does in the whole model.
void ExpectGoldenActivations(
    const std::string& folder,
    std::span<const size_t> layer_counts,
    const NetworkRig& rig,
    const std::vector<float>& inputs) {
  const NpyFile expected = Golden(folder, "activations");
  uint64_t at = 0;
  for (const size_t count : layer_counts) {
    ASSERT_LE(count, rig.model.layers.size());
    const std::vector<Layer> first(rig.model.layers.data(), rig.model.layers.data() + count);
    for (const float value : ActivationsOf(first, rig, inputs)) {
      ASSERT_LT(at, expected.rows());
      ASSERT_NEAR(value, expected.FloatAt(at), 2e-5) << first.back().name << " " << at;
      ++at;
    }
  }
  EXPECT_EQ(at, expected.rows());
}

struct GoldenBatch {
  std::vector<float> inputs;
  std::vector<uint32_t> labels;
};

/// A step has PyTorch's activations behind so many layers each, its loss and its gradients; of
/// batch norms the batch's statistics.
void ExpectGoldenStep(
    const std::string& folder,
    const proto::ModelConfig& config,
    const Shape& input,
    int64_t classes,
    std::span<const size_t> layer_counts,
    const GoldenBatch& batch) {
  kernels::SetComputeThreads(1);
  const auto samples = static_cast<int64_t>(batch.inputs.size()) / input.element_count();
  NetworkRig rig(kernels::test::BackendUnderTest(), config, input, samples, classes);
  rig.parameters = GoldenTensors(rig.model, folder, "parameters");
  rig.images = batch.inputs;
  rig.labels = batch.labels;
  ExpectGoldenActivations(folder, layer_counts, rig, batch.inputs);
  const auto expected = GoldenTensors(rig.model, folder, "gradients");
  const Result<BatchLoss> loss = rig.Step();
  ASSERT_TRUE(loss.ok()) << loss.status();
  const float mean = Golden(folder, "loss").FloatAt(0);
  EXPECT_NEAR(loss->loss_sum / static_cast<double>(loss->samples), mean, 1e-5);
  for (size_t t = 0; t < expected.size(); ++t) {
    for (size_t i = 0; i < expected[t].size(); ++i) {
      EXPECT_NEAR(rig.gradients[t][i], expected[t][i], 2e-5) << rig.model.tensors[t].name << i;
    }
  }
}

proto::ModelConfig GoldenTransformer(const std::string& name) {
  proto::ModelConfig config;
  config.name = name;
  config.depth = 2;
  config.heads = 2;
  config.width = 8;
  return config;
}

TEST(GoldenModelsTest, AGptHasPyTorchsActivationsLossAndGradients) {
  const NpyFile tokens = Golden("gpt", "tokens");
  GoldenBatch batch;
  for (uint64_t sample = 0; sample < tokens.rows(); ++sample) {
    for (uint64_t i = 0; i < static_cast<uint64_t>(kGoldenTokens); ++i) {
      const uint64_t at = sample * tokens.row_size() + i;
      batch.inputs.push_back(static_cast<float>(tokens.WholeAt(at)));
      batch.labels.push_back(static_cast<uint32_t>(tokens.WholeAt(at + 1)));
    }
  }
  ExpectGoldenStep(
      "gpt", GoldenTransformer("gpt"), kGoldenText, kGoldenVocabulary, kGoldenTextLayers, batch);
}

/// Of its tokens one of three has a label.
TEST(GoldenModelsTest, ABertHasPyTorchsActivationsLossAndGradients) {
  const NpyFile inputs = Golden("bert", "inputs");
  const NpyFile labels = Golden("bert", "labels");
  GoldenBatch batch;
  for (uint64_t i = 0; i < inputs.rows() * inputs.row_size(); ++i) {
    batch.inputs.push_back(static_cast<float>(inputs.WholeAt(i)));
    const auto label = static_cast<uint32_t>(labels.WholeAt(i));
    batch.labels.push_back(label == kGoldenVocabulary ? kNoLabel : label);
  }
  ExpectGoldenStep(
      "bert", GoldenTransformer("bert"), kGoldenText, kGoldenVocabulary, kGoldenTextLayers, batch);
}

Layers ConvNorm(int32_t out, int32_t kernel, int32_t stride = 1) {
  proto::LayerConfig conv = Conv2d(out, kernel, stride);
  conv.bias = false;
  return {conv, BatchNorm()};
}

Layers Concat(std::initializer_list<Layers> parts) {
  Layers layers;
  for (const Layers& part : parts) {
    layers.insert(layers.end(), part.begin(), part.end());
  }
  return layers;
}

GoldenBatch GoldenPictures(const std::string& folder) {
  const NpyFile inputs = Golden(folder, "inputs");
  const NpyFile labels = Golden(folder, "labels");
  GoldenBatch batch;
  for (uint64_t i = 0; i < inputs.rows() * inputs.row_size(); ++i) {
    batch.inputs.push_back(inputs.FloatAt(i));
  }
  for (uint64_t i = 0; i < labels.rows(); ++i) {
    batch.labels.push_back(static_cast<uint32_t>(labels.WholeAt(i)));
  }
  return batch;
}

TEST(GoldenModelsTest, AResNetHasPyTorchsActivationsLossAndGradients) {
  const auto block = [](int32_t out, int32_t stride) {
    const Layers body = Concat({ConvNorm(out, 3, stride), {Relu()}, ConvNorm(out, 3)});
    return Layers{Residual(body, stride > 1 ? ConvNorm(out, 1, stride) : Layers()), Relu()};
  };
  proto::ModelConfig config;
  config.layers =
      Concat({ConvNorm(4, 3), {Relu()}, block(4, 1), block(6, 2), {GlobalAvgPool(), Linear(3)}});
  // The stem, two residual blocks, all with their relu; pool, logits.
  constexpr size_t kLayers[] = {3, 5, 7, 8, 9};
  ExpectGoldenStep("resnet", config, {2, 8, 8}, 3, kLayers, GoldenPictures("resnet"));
}

TEST(GoldenModelsTest, ConvolutionsInGroupsHavePyTorchsActivationsLossAndGradients) {
  Layers depthwise = ConvNorm(4, 3, 2);
  depthwise[0].groups = 4;
  proto::ModelConfig config;
  config.layers = Concat(
      {ConvNorm(4, 3),
       {Relu()},
       depthwise,
       {Relu()},
       ConvNorm(8, 1),
       {Relu(),
        Grouped(4, Conv2d(12, 3, 1, 0)),
        Gelu(),
        Residual({Grouped(12, Conv2d(12, 5)), Conv2d(24, 1), Gelu(), Conv2d(12, 1)}, {}),
        GlobalAvgPool(),
        Linear(3)}});
  // Norms with their relu, the convolution in groups with its gelu, residual block, pool, logits.
  constexpr size_t kLayers[] = {3, 6, 9, 11, 12, 13, 14};
  ExpectGoldenStep("separable", config, {2, 8, 8}, 3, kLayers, GoldenPictures("separable"));
}

}  // namespace
}  // namespace ps::worker::test
