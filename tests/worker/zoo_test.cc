// Every model that has a name learns from real data, at its depth, by its file in configs: as a
// worker computes it, and as a server updates it.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector.h"
#include "ps/base/random.h"
#include "ps/proto/chunks.h"
#include "ps/proto/job/task.h"
#include "tests/worker/data/data_files.h"
#include "tests/worker/data/fashion.h"
#include "tests/worker/model/model_builder.h"
#include "tests/worker/model/model_server.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"
#include "worker/trainer.h"

namespace ps::worker::test {
namespace {

constexpr char kText[] = "/usr/share/common-licenses/GPL-3";  // in every Debian

using Overrides = std::vector<proto::ConfigOverride>;

proto::JobConfig ConfigNamed(const std::string& name, const Overrides& overrides) {
  return proto::LoadJobConfig("configs/" + name + ".json", overrides).value();
}

/// A job of one worker and one server, in this process: the mean loss of each epoch.
std::vector<double> Learn(
    const proto::JobConfig& config, uint64_t samples, uint64_t batch, int epochs) {
  kernels::SetComputeThreads(1);
  const DatasetInfo info = Dataset::Inspect(config.data, proto::TaskOf(config.model)).value();
  const Model model = MakeModel(config.model, info.shape, info.classes, info.labels).value();
  ModelServer server(config, model);
  const auto trainer = Trainer::Make(config, {kernels::MakeCpuBackend()}).value();
  const std::vector<codec::Encoding> encodings = trainer->TensorEncodings();
  const proto::TensorLayout layout(trainer->TensorElements());
  std::vector<float> parameters(static_cast<size_t>(layout.element_count()));
  std::vector<float> gradient(parameters.size());
  std::vector<float> unpacked(parameters.size());
  std::vector<double> losses;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double loss = 0;
    for (uint64_t at = 0; at < samples; at += batch) {
      for (size_t i = 0; i < model.tensors.size(); ++i) {
        const std::span<const float> values = server.ValuesOf(i);
        std::memcpy(parameters.data() + layout.OffsetOf(i), values.data(), values.size_bytes());
      }
      client::ComputeTask task;
      task.epoch = static_cast<uint32_t>(epoch);
      task.begin = at;
      task.end = at + batch;
      const auto done =
          trainer->Step(task, {parameters, gradient}, {.on_ready = [](uint32_t /*tensor*/) {}});
      PS_CHECK(done.ok()) << done.status();
      loss += done->loss_sum / static_cast<double>(samples);
      const double fraction = (epoch + static_cast<double>(at) / static_cast<double>(samples)) /
                              static_cast<double>(epochs);
      for (size_t i = 0; i < model.tensors.size(); ++i) {
        std::span<const float> values(
            gradient.data() + layout.OffsetOf(i), server.ValuesOf(i).size());
        if (encodings[i].kind == codec::EncodingKind::kBf16) {
          const auto* const halves = reinterpret_cast<const uint16_t*>(values.data());
          kernels::UnpackBf16(halves, unpacked.data(), static_cast<int64_t>(values.size()));
          values = std::span<const float>(unpacked).first(values.size());
        }
        server.Apply(i, values, batch, fraction);
      }
    }
    losses.push_back(loss);
  }
  return losses;
}

using proto::Precision;

std::string TestName(const std::string& config, Precision precision) {
  return config + (precision == Precision::kBf16 ? "_in_bf16" : "");
}

struct PictureModel {
  const char* config;
  int64_t shrink;
  uint64_t pictures;
  uint64_t batch = 16;
  int epochs = 4;
  Precision precision = Precision::kF32;  // what the config says
  bool is_cifar = false;                  // as the config has it, in a folder of CIFAR-10
};

class PictureZooTest : public testing::TestWithParam<PictureModel> {};

TEST_P(PictureZooTest, LearnsFashionMnist) {
  if (!HasFashion()) {
    GTEST_SKIP() << "no dataset at " << kFashion << "; apt-get install dataset-fashion-mnist";
  }
  const DataFolder folder;
  Overrides overrides = {{"data.directory", folder.path()}, {"data.train_samples", "0"}};
  if (GetParam().is_cifar) {
    WriteFashionAsCifar(folder, GetParam().pictures);
  } else {
    WriteFashion(folder, GetParam().shrink, GetParam().pictures);
    overrides.insert(
        overrides.end(), {{"data.format", "idx"}, {"data.pad", "0"}, {"data.augment", "{}"}});
  }
  if (GetParam().precision == Precision::kBf16) {
    overrides.push_back({"train.precision", "bf16"});
  }
  const proto::JobConfig config = ConfigNamed(GetParam().config, overrides);
  const std::vector<double> losses =
      Learn(config, GetParam().pictures, GetParam().batch, GetParam().epochs);
  EXPECT_LT(losses.back(), 0.7 * losses.front()) << testing::PrintToString(losses);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    PictureZooTest,
    testing::Values(
        PictureModel{"fashion_mnist_mlp_bsp", 1, 64},
        PictureModel{"fashion_mnist_cnn", 1, 64},
        PictureModel{"cifar10_resnet20", 1, 64, 16, 8, Precision::kF32, true},
        PictureModel{"fashion_mnist_resnet32", 4, 64},
        PictureModel{"fashion_mnist_resnet56", 4, 64},
        PictureModel{"cifar10_resnet110", 4, 64},
        PictureModel{"fashion_mnist_resnet50", 2, 32, 8},
        PictureModel{"fashion_mnist_vgg16", 1, 32},
        PictureModel{"fashion_mnist_vgg19", 1, 32},
        PictureModel{"fashion_mnist_mlp_bsp", 1, 64, 16, 4, Precision::kBf16},
        PictureModel{"fashion_mnist_cnn", 1, 64, 16, 4, Precision::kBf16}),
    [](const auto& info) { return TestName(info.param.config, info.param.precision); });

struct TextModel {
  const char* config;
  Precision precision = Precision::kF32;
  double left_max = 0.8;    // of the first epoch's loss
  bool has_tokens = false;  // of several bytes
};

class TextZooTest : public testing::TestWithParam<TextModel> {};

TEST_P(TextZooTest, LearnsALicence) {
  std::ifstream file(kText, std::ios::binary);
  if (!file) {
    GTEST_SKIP() << "no text at " << kText;
  }
  const DataFolder folder;
  folder.Write("text.txt", Bytes(std::istreambuf_iterator<char>(file), {}));
  Overrides overrides = {{"data.directory", folder.path()}, {"data.context", "64"}};
  if (GetParam().has_tokens) {
    overrides.push_back({"data.tokenizer", "tests/data/bpe"});
  }
  if (GetParam().precision == Precision::kBf16) {
    overrides.push_back({"train.precision", "bf16"});
  }
  const proto::JobConfig config = ConfigNamed(GetParam().config, overrides);
  const std::vector<double> losses = Learn(config, 128, 8, 3);
  EXPECT_LT(losses.back(), GetParam().left_max * losses.front()) << testing::PrintToString(losses);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    TextZooTest,
    testing::Values(
        TextModel{"gpt_text"},
        TextModel{"bert_text"},
        TextModel{"gpt_text", Precision::kBf16},
        TextModel{"gpt_bpe_text", Precision::kF32, 0.9, true}),
    [](const auto& info) { return TestName(info.param.config, info.param.precision); });

/// Whether a point is in a circle.
void WriteCircle(const DataFolder& folder) {
  Random random(4);
  for (const std::string which : {"train", "test"}) {
    std::string text = "x,y,where\n";
    for (int i = 0; i < 256; ++i) {
      const double x = 2 * random.Unit() - 1;
      const double y = 2 * random.Unit() - 1;
      text += std::to_string(x) + "," + std::to_string(y) + "," +
              (x * x + y * y < 0.6 ? "inside" : "outside") + "\n";
    }
    folder.Write(which + ".csv", Bytes(text.begin(), text.end()));
  }
}

TEST(TableTrainingTest, AnMlpLearnsASmallCsv) {
  const DataFolder folder;
  WriteCircle(folder);
  proto::JobConfig config;
  config.data.format = proto::DatasetFormat::kCsv;
  config.data.directory = folder.path();
  config.model.name = "mlp";
  config.optimizer.kind = proto::OptimizerKind::kAdam;
  config.optimizer.lr = 0.003F;
  config.train.minibatch = 32;
  const std::vector<double> losses = Learn(config, 256, 32, 12);
  EXPECT_LT(losses.back(), 0.5 * losses.front()) << testing::PrintToString(losses);
}

/// y and z are smooth functions of a and b.
void WriteSurface(const DataFolder& folder) {
  Random random(5);
  for (const std::string which : {"train", "test"}) {
    std::string text = "a,b,y,z\n";
    for (int i = 0; i < 256; ++i) {
      const double a = 2 * random.Unit() - 1;
      const double b = 2 * random.Unit() - 1;
      text += fmt::format("{},{},{},{}\n", a, b, a * b + 0.5 * a, std::sin(2 * b));
    }
    folder.Write(which + ".csv", Bytes(text.begin(), text.end()));
  }
}

TEST(TableTrainingTest, EveryLossOfNumbersLearnsTwoAtOnce) {
  const DataFolder folder;
  WriteSurface(folder);
  for (const proto::LayerConfig& loss :
       {Simple(proto::LayerKind::kMse), Simple(proto::LayerKind::kMae), Huber(0.5F)}) {
    proto::JobConfig config;
    config.data.format = proto::DatasetFormat::kCsv;
    config.data.directory = folder.path();
    config.data.labels = {"y", "z"};
    config.model.layers = {Linear(32), Tanh(), Linear(32), Tanh(), Linear(2), loss};
    config.optimizer.kind = proto::OptimizerKind::kAdam;
    config.optimizer.lr = 0.005F;
    config.train.minibatch = 32;
    const std::vector<double> losses = Learn(config, 256, 32, 12);
    EXPECT_LT(losses.back(), 0.5 * losses.front()) << testing::PrintToString(losses);
  }
}

TEST(TableTrainingTest, GroupNormLearnsByRmsprop) {
  const DataFolder folder;
  WriteCircle(folder);
  for (const float momentum : {0.0F, 0.9F}) {
    proto::JobConfig config;
    config.data.format = proto::DatasetFormat::kCsv;
    config.data.directory = folder.path();
    config.model.layers = {Linear(64), GroupNorm(4), Relu(), Linear(32), Relu(), Linear(2)};
    config.optimizer.kind = proto::OptimizerKind::kRmsprop;
    config.optimizer.lr = momentum > 0 ? 0.0003F : 0.003F;
    config.optimizer.momentum = momentum;
    config.train.minibatch = 32;
    const std::vector<double> losses = Learn(config, 256, 32, 12);
    EXPECT_LT(losses.back(), 0.5 * losses.front()) << testing::PrintToString(losses);
  }
}

}  // namespace
}  // namespace ps::worker::test
