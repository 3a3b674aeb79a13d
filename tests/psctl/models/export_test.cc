// Every kind of layer in PyTorch, against what psctl apply says of the same file and inputs.

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "configs/job_values_generated.h"
#include "tests/psctl/models/model_fixture.h"
#include "worker/model/layer_rule.h"

namespace ps::psctl {
namespace {

using proto::LayerConfig;
using proto::LayerKind;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ModelExportTest : public ModelFixture {
 protected:
  static LayerConfig Window(LayerKind kind, int32_t kernel, int32_t stride, int32_t padding) {
    LayerConfig layer = LayerOf(kind);
    layer.kernel = kernel;
    layer.stride = stride;
    layer.padding = padding;
    return layer;
  }

  static LayerConfig Conv(int32_t out, int32_t kernel, int32_t stride, int32_t padding) {
    LayerConfig layer = Window(LayerKind::kConv2d, kernel, stride, padding);
    layer.out = out;
    return layer;
  }

  static LayerConfig Residual(
      std::vector<LayerConfig> body, std::vector<LayerConfig> shortcut = {}) {
    LayerConfig layer = LayerOf(LayerKind::kResidual);
    layer.layers = std::move(body);
    layer.shortcut = std::move(shortcut);
    return layer;
  }

  static LayerConfig Grouped(int32_t groups, LayerConfig conv) {
    conv.groups = groups;
    return conv;
  }

  static LayerConfig Groups(int32_t groups) {
    LayerConfig layer = LayerOf(LayerKind::kGroupNorm);
    layer.groups = groups;
    return layer;
  }

  static LayerConfig Attention(int32_t heads, bool is_causal) {
    LayerConfig layer = LayerOf(LayerKind::kAttention);
    layer.heads = heads;
    layer.causal = is_causal;
    return layer;
  }

  static worker::ModelCard CardOf(const worker::Shape& input, std::vector<LayerConfig> layers) {
    worker::ModelCard card;
    card.layers = std::move(layers);
    card.layers.push_back(LayerOf(LayerKind::kLinear, 5));
    card.data.format = proto::DatasetFormat::kNpy;
    card.data.directory = "/data";
    card.data.vocabulary = static_cast<uint32_t>(input.vocabulary);
    card.input = input;
    card.classes = 5;
    return card;
  }

  void NoteKinds(const std::vector<LayerConfig>& layers) {
    for (const LayerConfig& layer : layers) {
      kinds_.insert(layer.kind);
      NoteKinds(layer.layers);
      NoteKinds(layer.shortcut);
    }
  }

  /// A folder with model, module, inputs and predictions.
  void AddCase(const std::string& name, const worker::ModelCard& card, const std::string& inputs) {
    SCOPED_TRACE(name);
    NoteKinds(card.layers);
    const std::string folder = "cases/" + name;
    std::filesystem::create_directories(root_ / folder);
    WriteModel(name + ".safetensors", card);
    WriteFile(folder + "/inputs.npy", inputs);
    ASSERT_EQ(
        Run({"model", "export", root_ / (name + ".safetensors"), "--pytorch", root_ / folder}), 0)
        << err_;
    const std::string data = std::filesystem::exists(root_ / (name + ".idx"))
                                 ? root_ / (name + ".idx")
                                 : root_ / (folder + "/inputs.npy");
    std::vector<std::string> apply = {
        "apply",
        root_ / (folder + "/model.safetensors"),
        data,
        "-o",
        root_ / (folder + "/predictions.csv")};
    if (card.task() == proto::Task::kClasses) {
      apply.insert(apply.end(), {"--top", "5"});
    }
    ASSERT_EQ(Run(apply), 0) << err_;
  }

  static std::vector<float> Floats(size_t count) {
    std::vector<float> values;
    Random random(11);
    for (size_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>(4 * random.Unit() - 2));
    }
    return values;
  }

  static std::vector<uint8_t> Bytes(size_t count) {
    std::vector<uint8_t> values;
    Random random(12);
    for (size_t i = 0; i < count; ++i) {
      values.push_back(static_cast<uint8_t>(random.Below(256)));
    }
    return values;
  }

  static std::vector<uint16_t> TokensBelow(size_t count, uint64_t vocabulary) {
    std::vector<uint16_t> values;
    Random random(13);
    for (size_t i = 0; i < count; ++i) {
      values.push_back(static_cast<uint16_t>(random.Below(vocabulary)));
    }
    return values;
  }

  void AddPictures() {
    worker::ModelCard bytes = CardOf(
        {3, 9, 8},
        {Conv(6, 3, 2, 1),
         LayerOf(LayerKind::kBatchNorm),
         LayerOf(LayerKind::kRelu),
         Residual(
             {Conv(8, 3, 1, 1), Groups(4), LayerOf(LayerKind::kGelu), Conv(8, 1, 1, 0)},
             {Conv(8, 1, 1, 0), LayerOf(LayerKind::kBatchNorm)}),
         LayerOf(LayerKind::kRelu),
         Window(LayerKind::kMaxPool, 3, 1, 1),
         LayerOf(LayerKind::kDropout),
         Window(LayerKind::kAvgPool, 2, 2, 1),
         LayerOf(LayerKind::kGlobalAvgPool),
         LayerOf(LayerKind::kLayerNorm)});
    bytes.layers[0].bias = false;
    bytes.normals.assign(3, {0, 255});
    AddCase("bytes", bytes, NpyBytes("|u1", "7, 3, 9, 8", Bytes(size_t{7} * 3 * 9 * 8)));
    AddCase(
        "grouped",
        CardOf(
            {4, 7, 6},
            {Grouped(4, Conv(8, 5, 2, 2)),
             Grouped(8, Conv(8, 3, 1, 1)),
             Grouped(2, Conv(6, 3, 1, 0)),
             LayerOf(LayerKind::kFlatten)}),
        NpyBytes("<f4", "3, 4, 7, 6", Floats(size_t{3} * 4 * 7 * 6)));
    AddCase(
        "to_one_pixel",
        CardOf({2, 4, 4}, {Conv(6, 4, 1, 0), LayerOf(LayerKind::kLayerNorm)}),
        NpyBytes("<f4", "3, 2, 4, 4", Floats(96)));
    AddCase(
        "to_one_pixel_then_linear",
        CardOf({2, 4, 4}, {Conv(6, 4, 1, 0)}),
        NpyBytes("<f4", "3, 2, 4, 4", Floats(96)));
    AddCase(
        "flatten",
        CardOf({2, 3, 4}, {LayerOf(LayerKind::kFlatten)}),
        NpyBytes("<f4", "3, 2, 3, 4", Floats(72)));
    worker::ModelCard padded = CardOf(
        {1, 7, 8}, {Conv(3, 3, 1, 1), LayerOf(LayerKind::kRelu), LayerOf(LayerKind::kFlatten)});
    padded.data.format = proto::DatasetFormat::kIdx;
    padded.data.pad = 2;
    padded.normals = {{72.25, 90.5}};
    const std::vector<uint8_t> pixels = Bytes(size_t{4} * 3 * 4);
    WriteFile(
        "padded.idx",
        IdxBytes(0x803, {4, 3, 4}, {reinterpret_cast<const char*>(pixels.data()), pixels.size()}));
    AddCase("padded", padded, NpyBytes("|u1", "4, 3, 4", pixels));
  }

  void AddVectors() {
    AddCase(
        "flat",
        CardOf(
            {6, 1, 1},
            {LayerOf(LayerKind::kLinear, 8),
             LayerOf(LayerKind::kBatchNorm),
             Residual({LayerOf(LayerKind::kLinear, 8), LayerOf(LayerKind::kRelu)}),
             Groups(2),
             Residual({Conv(8, 1, 1, 0)}),
             Window(LayerKind::kMaxPool, 1, 1, 0),
             Window(LayerKind::kAvgPool, 3, 1, 1),
             LayerOf(LayerKind::kFlatten),
             LayerOf(LayerKind::kGlobalAvgPool)}),
        NpyBytes("<f4", "5, 6", Floats(30)));
    AddCase(
        "pools_of_vectors",
        CardOf(
            {6, 1, 1},
            {LayerOf(LayerKind::kGlobalAvgPool),
             Window(LayerKind::kMaxPool, 2, 1, 1),
             Window(LayerKind::kAvgPool, 2, 1, 0),
             LayerOf(LayerKind::kFlatten),
             Window(LayerKind::kAvgPool, 1, 1, 0),
             LayerOf(LayerKind::kGlobalAvgPool)}),
        NpyBytes("<f4", "5, 6", Floats(30)));
  }

  void AddSequences() {
    const worker::Shape tokens{1, 6, 1, worker::ShapeKind::kTokens, 30};
    AddCase(
        "mean_of_tokens",
        CardOf(
            tokens,
            {LayerOf(LayerKind::kEmbedding, 8),
             Residual({LayerOf(LayerKind::kLayerNorm), Attention(2, false)}),
             Residual({LayerOf(LayerKind::kLayerNorm), LayerOf(LayerKind::kFeedForward)}),
             LayerOf(LayerKind::kGlobalAvgPool)}),
        NpyBytes("<u2", "4, 6", TokensBelow(24, 30)));
    AddCase(
        "flat_tokens",
        CardOf(
            tokens,
            {LayerOf(LayerKind::kEmbedding, 8),
             Attention(4, true),
             LayerOf(LayerKind::kGelu),
             LayerOf(LayerKind::kFlatten)}),
        NpyBytes("<u2", "4, 6", TokensBelow(24, 30)));
    worker::ModelCard next =
        CardOf(tokens, {LayerOf(LayerKind::kEmbedding, 8), Attention(2, true)});
    next.layers.back().out = 30;
    next.classes = 30;
    next.labels = 6;
    AddCase("next_token", next, NpyBytes("<u2", "4, 6", TokensBelow(24, 30)));
  }

  void AddTargets() {
    worker::ModelCard numbers = CardOf(
        {6, 1, 1},
        {LayerOf(LayerKind::kLinear, 8),
         LayerOf(LayerKind::kTanh),
         LayerOf(LayerKind::kLinear, 8),
         LayerOf(LayerKind::kSigmoid)});
    numbers.layers.push_back(LayerOf(LayerKind::kMse));
    numbers.labels = 5;
    numbers.target_means.assign(5, 0.5);
    AddCase("numbers", numbers, NpyBytes("<f4", "5, 6", Floats(30)));
    worker::ModelCard labels = CardOf(
        {2, 3, 4}, {Conv(3, 3, 1, 1), LayerOf(LayerKind::kTanh), LayerOf(LayerKind::kFlatten)});
    labels.layers.push_back(LayerOf(LayerKind::kBce));
    labels.labels = 5;
    AddCase("labels", labels, NpyBytes("<f4", "3, 2, 3, 4", Floats(72)));
  }

  std::set<LayerKind> kinds_;
};

TEST_F(ModelExportTest, PredictionsOfEachKindOfLayerEqualPyTorchs) {
  AddPictures();
  AddVectors();
  AddSequences();
  AddTargets();
  for (size_t i = 0; i < config::kLayerKindNames.size(); ++i) {
    const auto kind = static_cast<LayerKind>(i);
    const worker::LayerRule& rule = worker::LayerRuleOf(kind);
    const bool is_computed = rule.op != nullptr || rule.parts != nullptr;
    EXPECT_TRUE(!is_computed || kinds_.contains(kind))
        << config::kLayerKindNames[i] << " has no case here, so nothing compares it with PyTorch";
  }
  const char* const told = std::getenv("SPOTPS_TORCH_PYTHON");
  const std::string python = told == nullptr ? "/usr/bin/python3" : told;
  const auto run = [](const std::string& command) {
    const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  if (run("env -u LD_PRELOAD " + python + " -c 'import numpy, torch' 2> /dev/null") != 0) {
    GTEST_SKIP() << python << " has no PyTorch with numpy: SPOTPS_TORCH_PYTHON names one that has";
  }
  const std::string log = root_ / "log";
  const int code =
      run("env -u LD_PRELOAD " + python + " tests/psctl/models/compare_predictions.py " +
          (root_ / "cases") + " > " + log + " 2>&1");
  EXPECT_EQ(code, 0) << ReadFile(log).value();
}

TEST_F(ModelExportTest, AModuleSaysWhatTheOutputsAre) {
  const auto module_of = [&](const worker::ModelCard& card, const std::vector<float>& values) {
    WriteModel("model.safetensors", card, values);
    const std::string file = root_ / "module.py";
    EXPECT_EQ(Run({"model", "export", root_ / "model.safetensors", "--pytorch", file}), 0) << err_;
    return ReadFile(file).value();
  };
  const std::string numbers = module_of(TargetsCard(LayerKind::kMae), targets_values_);
  EXPECT_THAT(numbers, HasSubstr("Outputs [n, 2] are the values themselves"));
  EXPECT_THAT(numbers, HasSubstr("TARGETS = [\n    \"price\",\n    \"days\",\n]"));
  EXPECT_THAT(numbers, HasSubstr("return nn.Sequential(\n        nn.Linear(2, 2),\n    )\n"));
  EXPECT_THAT(numbers, Not(HasSubstr("CLASSES")));
  const std::string labels = module_of(TargetsCard(LayerKind::kBce), targets_values_);
  EXPECT_THAT(labels, HasSubstr("are logits: outputs.sigmoid() is each label's own probability"));
  EXPECT_THAT(labels, HasSubstr("LABELS = [\n    \"garden\",\n    \"garage\",\n]"));
  EXPECT_THAT(
      module_of(TableCard(), table_values_), HasSubstr("outputs.softmax(dim=1) has the prob"));
  EXPECT_THAT(module_of(TextCard(), TextValues()), HasSubstr("Outputs [n, 4, 128] are logits"));
}

/// Whoever made the file has chosen the name, and whoever imports the module runs it.
TEST_F(ModelExportTest, TheNameOfAJobIsNoCode) {
  const std::string ran = root_ / "ran";
  WriteModel(
      "named.safetensors",
      TableCard(),
      table_values_,
      {{"job", "x\"\"\";open('" + ran + "', 'w');\"\"\"\\"}});
  const std::string file = root_ / "named.py";
  ASSERT_EQ(Run({"model", "export", root_ / "named.safetensors", "--pytorch", file}), 0) << err_;
  // Without PyTorch, its first statements.
  const std::string text = ReadFile(file).value();
  WriteFile("begin.py", text.substr(0, text.find("import torch")));
  ASSERT_EQ(std::system(("python3 " + (root_ / "begin.py")).c_str()), 0);
  EXPECT_FALSE(std::filesystem::exists(ran));
}

TEST_F(ModelExportTest, AModuleSaysTheGroupsOfAConvolution) {
  const worker::ModelCard card = CardOf(
      {4, 1, 1}, {Grouped(4, Conv(8, 1, 1, 0)), Conv(6, 1, 1, 0), LayerOf(LayerKind::kFlatten)});
  WriteModel("grouped.safetensors", card);
  const std::string file = root_ / "grouped.py";
  ASSERT_EQ(Run({"model", "export", root_ / "grouped.safetensors", "--pytorch", file}), 0) << err_;
  const std::string text = ReadFile(file).value();
  EXPECT_THAT(text, HasSubstr("Conv2d(4, 8, 1, stride=1, padding=0, groups=4),\n"));
  EXPECT_THAT(text, HasSubstr("Conv2d(8, 6, 1, stride=1, padding=0),\n"));
}

TEST_F(ModelExportTest, AModuleSaysWhatTheInputsAre) {
  WriteModel("table.safetensors", TableCard(), table_values_);
  const std::string file = root_ / "table.py";
  ASSERT_EQ(Run({"model", "export", root_ / "table.safetensors", "--pytorch", file}), 0) << err_;
  EXPECT_EQ(out_, file + "\n");
  const auto text = ReadFile(file);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("CLASSES = [\n    \"cat\",\n    \"dog, wet\",\n    \"emu\",\n]\n"));
  EXPECT_THAT(*text, HasSubstr("COLUMNS = [\n    \"a\",\n    \"b\",\n]"));
  worker::ModelCard pictures = PictureCard();
  pictures.layers = {LayerOf(LayerKind::kFlatten), LayerOf(LayerKind::kLinear, 2)};
  pictures.input = {3, 4, 5};
  pictures.normals.assign(3, {100, 50});
  WriteModel("pictures.safetensors", pictures);
  ASSERT_EQ(Run({"model", "export", root_ / "pictures.safetensors", "--pytorch", file}), 0) << err_;
  EXPECT_THAT(
      ReadFile(file).value(),
      AllOf(
          HasSubstr("def read_picture(path):\n"),
          HasSubstr("    height, width = 4, 5\n"),
          HasSubstr(".convert(\"RGB\")\n"),
          HasSubstr(".reshape(height, width, 3).permute(2, 0, 1)\n\n\ndef prepare(inputs):")));
  EXPECT_EQ(Run({"model", "export", root_ / "table.safetensors"}), 2);
  EXPECT_THAT(err_, HasSubstr("--pytorch"));
  EXPECT_EQ(Run({"model", "export", root_ / "nothing.safetensors", "--pytorch", file}), 1);
}

}  // namespace
}  // namespace ps::psctl
