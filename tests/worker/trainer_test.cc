#include "worker/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "kernels/cpu/backend.h"
#include "ps/proto/chunks.h"
#include "tests/worker/data/data_files.h"
#include "tests/worker/model/model_builder.h"
#include "tests/worker/model/network_rig.h"
#include "worker/model/model.h"

namespace ps::worker::test {
namespace {

/// One step of a small job: its gradient, and how often a tensor was said to be ready.
struct TakenStep {
  std::vector<float> gradient;
  int ready_count = 0;

  double norm() const {
    double sum = 0;
    for (const float g : gradient) {
      sum += double{g} * g;
    }
    return std::sqrt(sum);
  }
};

TakenStep TakeStep(
    const DataFolder& folder,
    float clip_norm,
    uint32_t micro_batch = 0,
    std::optional<client::SamplesAhead> foreseen = {},
    proto::Precision precision = proto::Precision::kF32,
    proto::GradientDtype gradient_dtype = proto::GradientDtype::kF32) {
  proto::JobConfig config;
  config.data.directory = folder.path();
  config.model.layers = {Flatten(), Linear(3)};
  config.optimizer.clip_norm = clip_norm;
  config.train.micro_batch = micro_batch;
  config.train.precision = precision;
  config.train.gradient_dtype = gradient_dtype;
  const Result<std::unique_ptr<Trainer>> trainer =
      Trainer::Make(config, {kernels::MakeCpuBackend()});
  PS_CHECK(trainer.ok()) << trainer.status();
  const int64_t elements = proto::TensorLayout((*trainer)->TensorElements()).element_count();
  const std::vector<float> parameters(static_cast<size_t>(elements), 0.1F);
  TakenStep taken;
  taken.gradient.resize(parameters.size());
  client::ComputeTask task;
  task.begin = 3;
  task.end = 11;
  const TaskTensors tensors{parameters, taken.gradient};
  if (foreseen) {  // the first step makes room for what is fetched ahead
    PS_CHECK((*trainer)->Step(task, tensors, {.on_ready = [](uint32_t /*tensor*/) {}}).ok())
        << "the first step";
    (*trainer)->Foresee(*foreseen);
  }
  const auto on_ready = [&](uint32_t /*tensor*/) { ++taken.ready_count; };
  const auto done = (*trainer)->Step(task, tensors, {.on_ready = on_ready});
  PS_CHECK(done.ok()) << done.status();
  return taken;
}

TEST(TrainerTest, ClipNormScalesTheWholeGradient) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const TakenStep whole = TakeStep(folder, 0);
  EXPECT_EQ(whole.ready_count, 2);
  ASSERT_GT(whole.norm(), 0);
  const TakenStep clipped = TakeStep(folder, static_cast<float>(whole.norm() / 4));
  EXPECT_EQ(clipped.ready_count, 2);
  EXPECT_NEAR(clipped.norm(), whole.norm() / 4, 1e-5);
  for (size_t i = 0; i < whole.gradient.size(); ++i) {
    EXPECT_NEAR(clipped.gradient[i], whole.gradient[i] / 4, 1e-5) << i;
  }
  EXPECT_EQ(TakeStep(folder, static_cast<float>(whole.norm() * 2)).gradient, whole.gradient);
}

TEST(TrainerTest, AnEvaluationOfNumbersAddsUpWhatR2Needs) {
  const DataFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    folder.Write(name, Bytes(text.begin(), text.end()));
  };
  write("train.csv", "a,y,z\n1,2,10\n2,4,30\n");
  write("test.csv", "a,y,z\n1,1,-2\n2,5,4\n3,-3,0\n");
  proto::JobConfig config;
  config.data.format = proto::DatasetFormat::kCsv;
  config.data.directory = folder.path();
  config.data.labels = {"y", "z"};
  config.model.layers = {Linear(2), Simple(proto::LayerKind::kMae)};
  const auto trainer = Trainer::Make(config, {kernels::MakeCpuBackend()}).value();
  const int64_t elements = proto::TensorLayout(trainer->TensorElements()).element_count();
  const std::vector<float> zeros(static_cast<size_t>(elements), 0.0F);
  const client::ComputeResult result = trainer->Evaluate(zeros, 0, 3).value();
  // Predictions are 0; y is 3 less than its mean in training, z 20. Of two numbers a sample.
  EXPECT_DOUBLE_EQ(result.loss_sum, 15 / 2.0);
  EXPECT_DOUBLE_EQ(result.sums.absolute_error, 15 / 2.0);
  EXPECT_DOUBLE_EQ(result.sums.squared_error, (1 + 25 + 9 + 4 + 16) / 2.0);
  EXPECT_DOUBLE_EQ(result.sums.target, (-2 + 2 - 6 - 22 - 16 - 20) / 2.0);
  EXPECT_DOUBLE_EQ(result.sums.target_square, (4 + 4 + 36 + 484 + 256 + 400) / 2.0);
  EXPECT_EQ(result.correct, 0U);
  EXPECT_EQ(result.sums.near_samples, 0U);
}

TEST(TrainerTest, AMinibatchInPiecesHasTheGradientOfTheWhole) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const TakenStep whole = TakeStep(folder, 0);
  const TakenStep pieces = TakeStep(folder, 0, 3);
  EXPECT_EQ(pieces.ready_count, 2);
  EXPECT_NE(pieces.gradient, whole.gradient) << "rounded otherwise, so it was in pieces";
  for (size_t i = 0; i < whole.gradient.size(); ++i) {
    EXPECT_NEAR(pieces.gradient[i], whole.gradient[i], 1e-6) << i;
  }
}

TEST(TrainerTest, TheJobSaysInWhichPrecisionIsMultiplied) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const TakenStep whole = TakeStep(folder, 0);
  const TakenStep rounded = TakeStep(folder, 0, 0, {}, proto::Precision::kBf16);
  double difference = 0;
  for (size_t i = 0; i < whole.gradient.size(); ++i) {
    difference += std::pow(double{whole.gradient[i]} - rounded.gradient[i], 2);
  }
  EXPECT_GT(std::sqrt(difference), 1e-5 * whole.norm());
  EXPECT_LT(std::sqrt(difference), 1e-2 * whole.norm());
}

/// The last minibatch of an epoch: nothing that a batch norm would make of its one sample counts.
TEST(TrainerTest, OneSampleBeforeABatchNormChangesNothing) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  proto::JobConfig config;
  config.data.directory = folder.path();
  config.model.layers = {Flatten(), Linear(3), BatchNorm(0.1F)};
  const auto trainer = Trainer::Make(config, {kernels::MakeCpuBackend()}).value();
  const proto::TensorLayout layout(trainer->TensorElements());
  const std::vector<float> parameters(static_cast<size_t>(layout.element_count()), 0.25F);
  std::vector<float> gradient(parameters.size(), 7);
  client::ComputeTask task;
  task.begin = 19;
  task.end = 20;
  std::vector<uint32_t> ready;
  const auto done = trainer->Step(task, {parameters, gradient}, {.on_ready = [&](uint32_t tensor) {
                                    ready.push_back(tensor);
                                  }});
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_GT(done->loss_sum, 0);
  EXPECT_EQ(ready, (std::vector<uint32_t>{5, 4, 3, 2, 1, 0}));
  for (size_t tensor = 0; tensor < 6; ++tensor) {
    const bool is_running = tensor >= 4;  // the mean and the variance, which stay as they are
    EXPECT_EQ(gradient[static_cast<size_t>(layout.OffsetOf(tensor))], is_running ? 0.25F : 0.0F);
  }
}

TEST(TrainerTest, AForeseenMinibatchHasTheSameGradient) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const TakenStep plain = TakeStep(folder, 0);
  EXPECT_EQ(TakeStep(folder, 0, 0, client::SamplesAhead{0, 3, 11}).gradient, plain.gradient);
  EXPECT_EQ(TakeStep(folder, 0, 0, client::SamplesAhead{0, 11, 19}).gradient, plain.gradient);
}

TEST(TrainerTest, AJobCanAskForRoundedGradients) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const TakenStep plain = TakeStep(folder, 0);
  const TakenStep rounded =
      TakeStep(folder, 0, 0, {}, proto::Precision::kF32, proto::GradientDtype::kBf16);
  EXPECT_EQ(rounded.ready_count, 2);
  const std::vector<int64_t> elements = {18, 3};
  const proto::TensorLayout layout(elements);
  for (size_t tensor = 0; tensor < elements.size(); ++tensor) {
    const auto offset = static_cast<size_t>(layout.OffsetOf(tensor));
    const auto size = static_cast<size_t>(elements[tensor]);
    const std::vector<float> values =
        UnpackedBf16(std::span(rounded.gradient).subspan(offset, size));
    for (size_t i = 0; i < size; ++i) {
      EXPECT_EQ(values[i], RoundedToBf16(plain.gradient[offset + i])) << tensor << " " << i;
    }
  }
}

TEST(TrainerTest, AGptLearnsARepeatedTextFromItsFile) {
  const DataFolder folder;
  Bytes text;
  for (int i = 0; i < 80; ++i) {
    for (const char c : std::string("in the beginning ")) {
      text.push_back(static_cast<uint8_t>(c));
    }
  }
  folder.Write("text.txt", text);
  proto::JobConfig config;
  config.data.format = proto::DatasetFormat::kText;
  config.data.directory = folder.path();
  config.data.context = 16;
  config.model.name = "gpt";
  config.model.depth = 1;
  config.model.heads = 2;
  config.model.width = 16;
  const Result<std::unique_ptr<Trainer>> trainer =
      Trainer::Make(config, {kernels::MakeCpuBackend()});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const Model model = MakeModel(config.model, {1, 16, 1, ShapeKind::kTokens, 256}, 256, 16).value();
  const proto::TensorLayout layout((*trainer)->TensorElements());
  std::vector<float> parameters(static_cast<size_t>(layout.element_count()));
  for (uint32_t i = 0; i < model.tensors.size(); ++i) {
    const int64_t size = model.tensors[i].element_count();
    InitializeTensor(model.tensors[i], i, 1, 0, parameters.data() + layout.OffsetOf(i), size);
  }
  std::vector<float> gradient(parameters.size());
  client::ComputeTask task;
  task.end = 16;
  const TaskTensors tensors{parameters, gradient};
  for (int step = 0; step < 60; ++step) {
    ASSERT_TRUE((*trainer)->Step(task, tensors, {.on_ready = [](uint32_t /*tensor*/) {}}).ok());
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] -= 0.5F * gradient[i];
    }
  }
  const auto tested = (*trainer)->Evaluate(parameters, 0, 8);
  ASSERT_TRUE(tested.ok()) << tested.status();
  EXPECT_LT(tested->loss_sum / 8, 2.5) << "of log(256) = 5.5 at the beginning";
}

}  // namespace
}  // namespace ps::worker::test
