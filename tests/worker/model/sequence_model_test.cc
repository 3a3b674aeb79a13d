#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "ps/base/random.h"
#include "tests/worker/model/model_builder.h"
#include "tests/worker/model/network_rig.h"
#include "worker/model/model.h"
#include "worker/model/model_cost.h"
#include "worker/model/network.h"

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

constexpr int64_t kVocabulary = 11;
constexpr int64_t kTokens = 7;
constexpr Shape kText{1, kTokens, 1, ShapeKind::kTokens, kVocabulary};

proto::ModelConfig Named(const std::string& name) {
  proto::ModelConfig config;
  config.name = name;
  config.depth = 2;
  config.heads = 2;
  config.width = 8;
  return config;
}

proto::LayerConfig Embedding(int32_t width) {
  proto::LayerConfig layer = Simple(proto::LayerKind::kEmbedding);
  layer.out = width;
  return layer;
}

proto::LayerConfig Attention(int32_t heads) {
  proto::LayerConfig layer = Simple(proto::LayerKind::kAttention);
  layer.heads = heads;
  return layer;
}

std::string MisfitOf(Layers layers, const Shape& input, int64_t labels) {
  proto::ModelConfig config;
  config.layers = std::move(layers);
  return std::string(MakeModel(config, input, kVocabulary, labels).status().message());
}

TEST(SequenceModelTest, GptHasTheTensorsOfItsBlocks) {
  const Result<Model> made = MakeModel(Named("gpt"), kText, kVocabulary, kTokens);
  ASSERT_TRUE(made.ok()) << made.status();
  std::vector<std::string> names;
  for (const TensorSpec& tensor : made->tensors) {
    names.push_back(tensor.name);
  }
  ASSERT_EQ(names.size(), 2U + 2 * (2 + 4 + 2 + 4) + 2 + 2);
  EXPECT_EQ(names[0], "0.embedding.weight");
  EXPECT_EQ(names[1], "0.embedding.position");
  EXPECT_EQ(names[2], "1.residual.body.0.layer_norm.gamma");
  EXPECT_EQ(names[4], "1.residual.body.1.attention.qkv.weight");
  EXPECT_EQ(names[6], "1.residual.body.1.attention.out.weight");
  EXPECT_EQ(names[10], "2.residual.body.1.feed_forward.in.weight");
  EXPECT_EQ(names.back(), "6.linear.bias");
  // 12 w^2 + 13 w a block, both tables, the last norm, the logits.
  EXPECT_EQ(made->parameter_count(), 2 * (12 * 64 + 13 * 8) + (11 + 7) * 8 + 16 + 11 * 9);
  EXPECT_EQ(made->layers.back().out.ToString(), "7 tokens of 11");
}

TEST(SequenceModelTest, CostsCountEveryLayerOnce) {
  const Model model = MakeModel(Named("gpt"), kText, kVocabulary, kTokens).value();
  const std::vector<LayerCost> costs = CostsOf(model);
  int64_t parameters = 0;
  for (const LayerCost& cost : costs) {
    parameters += cost.parameters;
  }
  EXPECT_EQ(parameters, model.parameter_count());
  EXPECT_EQ(costs[2].name, "1.residual.body.1.attention.qkv");
  EXPECT_EQ(costs[2].flops, 2 * kTokens * 8 * 24);
  EXPECT_EQ(costs[2].out.ToString(), "7 tokens of 24");
  EXPECT_EQ(costs[5].name, "1.residual");
}

TEST(SequenceModelTest, ALayerThatDoesNotFitIsNamed) {
  EXPECT_THAT(
      MisfitOf({Linear(5)}, kText, kTokens),
      HasSubstr("model.layers[0] (linear): input 7 tokens below 11 are numbers of words; put "
                "embedding in front of it"));
  EXPECT_THAT(
      MisfitOf({Embedding(8), Embedding(8)}, kText, kTokens),
      HasSubstr("model.layers[1] (embedding): input 7 tokens of 8 is no tokens"));
  EXPECT_THAT(
      MisfitOf({Embedding(8), Attention(3)}, kText, kTokens),
      HasSubstr("model.layers[1] (attention): heads 3 do not divide the 8 features of a token"));
  EXPECT_THAT(
      MisfitOf({Embedding(8), Conv2d(4, 3)}, kText, kTokens),
      HasSubstr("model.layers[1] (conv2d): input 7 tokens of 8 is no image"));
  EXPECT_THAT(
      MisfitOf({Flatten(), Attention(3)}, {3, 8, 8}, 1),
      HasSubstr("model.layers[1] (attention): input 192 is no sequence; the data need to be"));
  EXPECT_THAT(
      MisfitOf({Embedding(8), Linear(11)}, kText, 1),
      HasSubstr("(linear): the model ends in 7 tokens of 11, the data has 11 classes; end with a "
                "linear layer with out 11 behind global_avg_pool"));
  EXPECT_THAT(
      MisfitOf({Embedding(8), GlobalAvgPool(), Linear(11)}, kText, kTokens),
      HasSubstr("the model ends in 11, the data has one of 11 classes for each of 7 tokens"));
  proto::ModelConfig cnn;
  cnn.name = "cnn";
  EXPECT_THAT(
      std::string(MakeModel(cnn, kText, kVocabulary, kTokens).status().message()),
      HasSubstr("model.name cnn: layers[0] (conv2d): input 7 tokens below 11"));
}

/// A network on random tokens, each labelled with the one before it in the alphabet.
struct TokenRig {
  TokenRig(const proto::ModelConfig& config, int64_t n, bool has_hidden)
      : model(MakeModel(config, kText, kVocabulary, kTokens).value()) {
    kernels::SetComputeThreads(1);
    for (uint32_t i = 0; i < model.tensors.size(); ++i) {
      const int64_t size = model.tensors[i].element_count();
      parameters.emplace_back(static_cast<size_t>(size));
      gradients.emplace_back(static_cast<size_t>(size));
      InitializeTensor(model.tensors[i], i, 1, 0, parameters.back().data(), size);
    }
    Random random(3);
    for (int64_t i = 0; i < n * kTokens; ++i) {
      const uint64_t token = random.Below(kVocabulary);
      tokens.push_back(static_cast<float>(token));
      const bool counts = !has_hidden || i % 3 == 0;
      labels.push_back(counts ? static_cast<uint32_t>((token + 1) % kVocabulary) : kNoLabel);
    }
    network = Network::Make(model, {backend.get()}, 5).value();
  }

  BatchLoss Step() {
    const std::vector<std::span<const float>> p(parameters.begin(), parameters.end());
    const std::vector<std::span<float>> g(gradients.begin(), gradients.end());
    Result<BatchLoss> loss =
        network->TrainStep(p, {tokens, labels}, {.step = 1}, g, [](uint32_t /*tensor*/) {});
    PS_CHECK(loss.ok()) << loss.status();
    return *loss;
  }

  double MeanLoss() {
    const BatchLoss loss = Step();
    return loss.loss_sum / static_cast<double>(loss.samples);
  }

  // Its memory is the host's, so nothing needs to be pinned.
  const std::unique_ptr<kernels::Backend> backend = kernels::MakeCpuBackend();
  Model model;
  std::vector<std::vector<float>> parameters;
  std::vector<std::vector<float>> gradients;
  std::vector<float> tokens;
  std::vector<uint32_t> labels;
  std::unique_ptr<Network> network;
};

TEST(SequenceModelTest, TheFirstLossIsThatOfAGuess) {
  TokenRig rig(Named("gpt"), 5, false);
  const BatchLoss loss = rig.Step();
  EXPECT_EQ(loss.samples, 5);
  EXPECT_NEAR(loss.loss_sum / 5, std::log(static_cast<double>(kVocabulary)), 0.05);
  EXPECT_LE(loss.correct, 5);
}

TEST(SequenceModelTest, GradientsEqualFiniteDifferences) {
  for (const char* name : {"gpt", "bert"}) {
    TokenRig rig(Named(name), 3, name == std::string("bert"));
    for (std::vector<float>& values : rig.parameters) {
      for (float& value : values) {
        value *= 5;  // far from where every token looks alike
      }
    }
    rig.Step();
    const std::vector<std::vector<float>> gradients = rig.gradients;
    for (size_t t = 0; t < rig.parameters.size(); ++t) {
      constexpr float kStep = 1e-2F;
      const size_t at = rig.parameters[t].size() / 2;
      float& value = rig.parameters[t][at];
      const float before = value;
      value = before + kStep;
      const double above = rig.MeanLoss();
      value = before - kStep;
      const double below = rig.MeanLoss();
      value = before;
      EXPECT_NEAR(gradients[t][at], (above - below) / (2 * static_cast<double>(kStep)), 2e-3)
          << name << " " << rig.model.tensors[t].name;
    }
  }
}

TEST(SequenceModelTest, BothModelsLearnARuleOfTheirTokens) {
  for (const char* name : {"gpt", "bert"}) {
    TokenRig rig(Named(name), 4, name == std::string("bert"));
    const double first = rig.MeanLoss();
    for (int step = 0; step < 150; ++step) {
      rig.Step();
      for (size_t t = 0; t < rig.parameters.size(); ++t) {
        for (size_t i = 0; i < rig.parameters[t].size(); ++i) {
          rig.parameters[t][i] -= 0.5F * rig.gradients[t][i];
        }
      }
    }
    EXPECT_LT(rig.MeanLoss(), first / 2) << name;
  }
}

TEST(SequenceModelTest, ATokenOrALabelOutOfRangeIsRefused) {
  TokenRig rig(Named("gpt"), 1, false);
  const std::vector<std::span<const float>> p(rig.parameters.begin(), rig.parameters.end());
  rig.tokens[3] = kVocabulary;
  EXPECT_THAT(
      rig.network->Evaluate(p, {rig.tokens, rig.labels}).status().ToString(),
      HasSubstr("token 11 of a vocabulary of 11"));
  rig.tokens[3] = 0;
  rig.labels[2] = kVocabulary;
  EXPECT_THAT(
      rig.network->Evaluate(p, {rig.tokens, rig.labels}).status().ToString(),
      HasSubstr("label 11 of 11 classes"));
  rig.labels.pop_back();
  EXPECT_FALSE(rig.network->Evaluate(p, {rig.tokens, rig.labels}).ok());
}

/// The loss is the mean over the tokens that have one.
TEST(SequenceModelTest, PiecesOfAMinibatchWeighByTheirLabels) {
  const auto cpu = kernels::MakeCpuBackend();
  NetworkRig whole(cpu.get(), Named("bert"), kText, 3, kVocabulary);
  std::fill(whole.labels.begin() + 1, whole.labels.begin() + 10, kNoLabel);
  NetworkRig pieces(cpu.get(), Named("bert"), kText, 3, kVocabulary);
  pieces.labels = whole.labels;
  const BatchLoss loss = whole.Step().value();
  const Result<BatchLoss> found = pieces.Step({.step = 1, .micro_batch = 1});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_NEAR(found->loss_sum, loss.loss_sum, 1e-5);
  for (size_t i = 0; i < whole.gradients.size(); ++i) {
    EXPECT_THAT(
        pieces.gradients[i], testing::Pointwise(testing::FloatNear(1e-6F), whole.gradients[i]))
        << whole.model.tensors[i].name;
  }
}

}  // namespace
}  // namespace ps::worker::test
