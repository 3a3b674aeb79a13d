// Every model that has a name learns from real data, at its depth, as a worker computes it.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/threads.h"
#include "ps/base/random.h"
#include "ps/proto/chunks.h"
#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"
#include "worker/data/image_files.h"
#include "worker/model/model.h"
#include "worker/trainer.h"

namespace ps::worker::test {
namespace {

constexpr char kFashion[] = "/usr/share/datasets/fashion-mnist";
constexpr char kText[] = "/usr/share/common-licenses/GPL-3";  // in every Debian

/// A job of one worker and one server, in this process: the mean loss of each epoch.
std::vector<double> Learn(
    const proto::JobConfig& config, uint64_t samples, uint64_t batch, int epochs, float lr) {
  kernels::SetComputeThreads(1);
  const DatasetInfo info = Dataset::Inspect(config.data).value();
  const Model model = MakeModel(config.model, info.shape, info.classes, info.labels).value();
  const auto trainer = Trainer::Make(config, {kernels::MakeCpuBackend()}).value();
  const proto::TensorLayout layout(trainer->TensorElements());
  const auto elements = static_cast<size_t>(layout.element_count());
  std::vector<float> parameters(elements);
  std::vector<float> gradient(elements);
  std::vector<float> first(elements);
  std::vector<float> second(elements);
  for (uint32_t i = 0; i < model.tensors.size(); ++i) {
    const int64_t size = model.tensors[i].element_count();
    InitializeTensor(model.tensors[i], i, 1, 0, parameters.data() + layout.OffsetOf(i), size);
  }
  std::vector<double> losses;
  uint64_t count = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    double loss = 0;
    for (uint64_t at = 0; at < samples; at += batch) {
      client::ComputeTask task;
      task.begin = at;
      task.end = at + batch;
      task.parameters = parameters;
      task.gradient = gradient;
      const auto done = trainer->Step(task, [](uint32_t /*tensor*/) {});
      PS_CHECK(done.ok()) << done.status();
      loss += done->loss_sum / static_cast<double>(samples);
      ++count;
      for (uint32_t i = 0; i < model.tensors.size(); ++i) {
        const TensorSpec& spec = model.tensors[i];
        const int64_t offset = layout.OffsetOf(i);
        float* const w = parameters.data() + offset;
        const float* const g = gradient.data() + offset;
        if (spec.rule == UpdateRule::kAverage) {
          for (int64_t k = 0; k < spec.element_count(); ++k) {
            w[k] += spec.average_rate * (g[k] - w[k]);
          }
          continue;
        }
        kernels::ApplyUpdate(
            {.kind = kernels::OptimizerKind::kAdam},
            {lr, 0, count},
            {g, w, {first.data() + offset, second.data() + offset}, spec.element_count()});
      }
    }
    losses.push_back(loss);
  }
  return losses;
}

/// Pictures of Fashion-MNIST as IDX files, 32 x 32 with black around them, or each square of
/// `shrink` x `shrink` of those as its mean: a deep model costs by the pixel.
void WriteFashion(const DataFolder& folder, int64_t shrink, uint64_t count) {
  const std::string path = std::string(kFashion) + "/train-";
  const LabeledImages all =
      ReadIdx(path + "images-idx3-ubyte.gz", path + "labels-idx1-ubyte.gz", count).value();
  const int64_t side = 32 / shrink;
  const auto rows = static_cast<uint32_t>(side);
  Bytes pixels = IdxImages(static_cast<uint32_t>(count), rows, rows);
  Bytes labels = IdxLabels(static_cast<uint32_t>(count), 10);
  constexpr size_t kImagesHeader = 16;
  constexpr size_t kLabelsHeader = 8;
  for (uint64_t i = 0; i < count; ++i) {
    labels[kLabelsHeader + i] = all.labels[i];
    for (int64_t at = 0; at < side * side; ++at) {
      int64_t sum = 0;
      for (int64_t k = 0; k < shrink * shrink; ++k) {
        const int64_t y = at / side * shrink + k / shrink - 2;
        const int64_t x = at % side * shrink + k % shrink - 2;
        const bool is_inside = y >= 0 && y < 28 && x >= 0 && x < 28;
        const auto pixel = static_cast<size_t>(static_cast<int64_t>(i) * 784 + y * 28 + x);
        sum += is_inside ? all.pixels[pixel] : 0;
      }
      const auto out =
          kImagesHeader + static_cast<size_t>(static_cast<int64_t>(i) * side * side + at);
      pixels[out] = static_cast<uint8_t>(sum / (shrink * shrink));
    }
  }
  for (const std::string which : {"train", "t10k"}) {
    folder.Write(which + "-images-idx3-ubyte", pixels);
    folder.Write(which + "-labels-idx1-ubyte", labels);
  }
}

using proto::Precision;

std::string TestName(const std::string& model, Precision precision) {
  return model + (precision == Precision::kBf16 ? "_bf16" : "");
}

struct PictureModel {
  const char* name;
  int64_t shrink;
  uint64_t pictures;
  Precision precision = Precision::kF32;
};

class PictureZooTest : public testing::TestWithParam<PictureModel> {};

TEST_P(PictureZooTest, LearnsFashionMnist) {
  if (!std::filesystem::exists(kFashion)) {
    GTEST_SKIP() << "no dataset at " << kFashion << "; apt-get install dataset-fashion-mnist";
  }
  const DataFolder folder;
  WriteFashion(folder, GetParam().shrink, GetParam().pictures);
  proto::JobConfig config;
  config.data.directory = folder.path();
  config.model.name = GetParam().name;
  config.train.precision = GetParam().precision;
  const std::vector<double> losses = Learn(config, GetParam().pictures, 16, 4, 0.001F);
  EXPECT_LT(losses.back(), 0.7 * losses.front()) << testing::PrintToString(losses);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    PictureZooTest,
    testing::Values(
        PictureModel{"mlp", 1, 64},
        PictureModel{"cnn", 1, 64},
        PictureModel{"resnet20", 2, 64},
        PictureModel{"resnet32", 4, 64},
        PictureModel{"resnet56", 4, 64},
        PictureModel{"resnet110", 4, 64},
        PictureModel{"resnet50", 2, 32},
        PictureModel{"vgg16", 1, 32},
        PictureModel{"vgg19", 1, 32},
        PictureModel{"mlp", 1, 64, Precision::kBf16},
        PictureModel{"cnn", 1, 64, Precision::kBf16}),
    [](const auto& info) { return TestName(info.param.name, info.param.precision); });

struct TextModel {
  const char* name;
  Precision precision = Precision::kF32;
  const char* tokenizer = "";  // a token is a byte
  double left_max = 0.8;       // of the first epoch's loss
};

class TextZooTest : public testing::TestWithParam<TextModel> {};

TEST_P(TextZooTest, LearnsALicence) {
  std::ifstream file(kText, std::ios::binary);
  if (!file) {
    GTEST_SKIP() << "no text at " << kText;
  }
  const DataFolder folder;
  folder.Write("text.txt", Bytes(std::istreambuf_iterator<char>(file), {}));
  proto::JobConfig config;
  config.data.format = proto::DatasetFormat::kText;
  config.data.directory = folder.path();
  config.data.context = 64;
  config.data.tokenizer = GetParam().tokenizer;
  config.data.mask = GetParam().name == std::string("bert") ? 0.15F : 0;
  config.model.name = GetParam().name;  // 4 blocks of 4 heads and width 128
  config.train.precision = GetParam().precision;
  const std::vector<double> losses = Learn(config, 128, 8, 3, 0.001F);
  EXPECT_LT(losses.back(), GetParam().left_max * losses.front()) << testing::PrintToString(losses);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    TextZooTest,
    testing::Values(
        TextModel{"gpt"},
        TextModel{"bert"},
        TextModel{"gpt", Precision::kBf16},
        TextModel{"gpt", Precision::kF32, "tests/data/bpe", 0.9}),
    [](const auto& info) {
      return TestName(info.param.name, info.param.precision) +
             (*info.param.tokenizer != '\0' ? "_tokens" : "");
    });

TEST(TableTrainingTest, AnMlpLearnsASmallCsv) {
  const DataFolder folder;
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
  proto::JobConfig config;
  config.data.format = proto::DatasetFormat::kCsv;
  config.data.directory = folder.path();
  config.model.name = "mlp";
  const std::vector<double> losses = Learn(config, 256, 32, 12, 0.003F);
  EXPECT_LT(losses.back(), 0.5 * losses.front()) << testing::PrintToString(losses);
}

}  // namespace
}  // namespace ps::worker::test
