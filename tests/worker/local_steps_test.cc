#include "worker/local_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/optimizer.h"
#include "ps/proto/chunks.h"
#include "tests/worker/data/data_files.h"
#include "tests/worker/model/model_builder.h"
#include "worker/trainer.h"

namespace ps::worker::test {
namespace {

/// A small job on 20 pictures, and its trainer.
class LocalStepsTest : public ::testing::Test {
 protected:
  LocalStepsTest() {
    WriteIdxSet(folder_, 20, 7);
    config_.data.directory = folder_.path();
    config_.model.layers = {Flatten(), Linear(3)};
    config_.train.minibatch = 4;
    config_.train.local_steps = 3;
    config_.train.epochs = 2;
    config_.optimizer.lr = 0.1F;
  }

  void SetUp() override { Make(); }

  void Make() {
    trainer_ = Trainer::Make(config_, {kernels::MakeCpuBackend()}).value();
    const proto::TensorLayout layout(trainer_->TensorElements());
    offsets_.clear();
    for (size_t tensor = 0; tensor < trainer_->TensorElements().size(); ++tensor) {
      offsets_.push_back(static_cast<size_t>(layout.OffsetOf(tensor)));
    }
    parameters_.assign(static_cast<size_t>(layout.element_count()), 0.1F);
    gradient_.assign(parameters_.size(), 7);
  }

  static client::ComputeTask Task(uint64_t begin, uint64_t end, uint32_t local_steps) {
    client::ComputeTask task;
    task.step = 1;
    task.begin = begin;
    task.end = end;
    task.minibatch = 4;
    task.local_steps = local_steps;
    task.is_local = local_steps > 1;
    return task;
  }

  client::ComputeResult Step(
      const client::ComputeTask& task, const Trainer::StepWatch& watch = {}) {
    return trainer_->Step(task, {parameters_, gradient_}, watch).value();
  }

  /// What the minibatches of the task come to when servers apply each by itself, with the
  /// learning rate `lr` of a whole minibatch.
  std::vector<float> OneByOne(const client::ComputeTask& task, float lr, double* loss) {
    std::vector<float> parameters = parameters_;
    std::vector<float> gradient(parameters.size());
    uint64_t count = 0;
    for (uint64_t begin = task.begin; begin < task.end; begin += 4) {
      client::ComputeTask one = Task(begin, std::min(begin + 4, task.end), 1);
      *loss += trainer_->Step(one, {parameters, gradient}, {})->loss_sum;
      const float weight = static_cast<float>(one.end - one.begin) / 4;
      ++count;
      for (size_t tensor = 0; tensor < offsets_.size(); ++tensor) {
        const size_t at = offsets_[tensor];
        kernels::ApplyUpdate(
            config_.optimizer,
            {lr * weight, 0, count},
            {gradient.data() + at, parameters.data() + at, {}, trainer_->TensorElements()[tensor]});
      }
    }
    return parameters;
  }

  void ForEachElement(const auto& check) {
    for (size_t tensor = 0; tensor < offsets_.size(); ++tensor) {
      for (int64_t i = 0; i < trainer_->TensorElements()[tensor]; ++i) {
        check(offsets_[tensor] + static_cast<size_t>(i));
      }
    }
  }

  DataFolder folder_;
  proto::JobConfig config_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<size_t> offsets_;  // of the tensors
  std::vector<float> parameters_;
  std::vector<float> gradient_;
};

TEST_F(LocalStepsTest, TheyComeToWhatTheServersWouldHaveComeTo) {
  const client::ComputeTask task = Task(3, 13, 3);  // 4, 4 and 2 samples
  double loss = 0;
  const std::vector<float> end = OneByOne(task, 0.1F, &loss);
  const client::ComputeResult result = Step(task);
  EXPECT_EQ(result.loss_sum, loss);
  EXPECT_EQ(result.samples, 10U);
  ForEachElement([&](size_t i) { ASSERT_EQ(gradient_[i], parameters_[i] - end[i]) << i; });
  ForEachElement([&](size_t i) { ASSERT_EQ(parameters_[i], 0.1F) << "they stay"; });
}

TEST_F(LocalStepsTest, TheLearningRateFollowsTheScheduleOfTheWholeJob) {
  config_.optimizer.schedule.kind = proto::ScheduleKind::kLinear;
  Make();
  client::ComputeTask task = Task(0, 4, 3);
  task.samples_done = 30;  // of 40
  double loss = 0;
  const std::vector<float> end = OneByOne(task, 0.025F, &loss);
  Step(task);
  ForEachElement([&](size_t i) { ASSERT_NEAR(gradient_[i], parameters_[i] - end[i], 1e-7) << i; });
}

TEST_F(LocalStepsTest, SamplesForValidationAreNoneOfTheSchedule) {
  config_.optimizer.schedule.kind = proto::ScheduleKind::kLinear;
  config_.data.validation_share = 0.5F;
  Make();
  client::ComputeTask task = Task(0, 4, 3);
  task.samples_done = 15;  // of 20
  double loss = 0;
  const std::vector<float> end = OneByOne(task, 0.025F, &loss);
  Step(task);
  ForEachElement([&](size_t i) { ASSERT_NEAR(gradient_[i], parameters_[i] - end[i], 1e-7) << i; });
}

TEST_F(LocalStepsTest, FrozenTensorsStayAndOthersMoveByTheirFactor) {
  config_.optimizer.weight_decay = 0.5F;
  config_.parameters = {
      {.match = {"1.linear.weight"}, .frozen = true},
      {.match = {"1.linear.bias"}, .weight_decay = proto::DecayUse::kOff}};
  Make();
  Step(Task(0, 8, 2));
  for (int64_t i = 0; i < trainer_->TensorElements()[0]; ++i) {
    ASSERT_EQ(gradient_[offsets_[0] + static_cast<size_t>(i)], 0) << i;
  }
  EXPECT_NE(gradient_[offsets_[1]], 0);
  config_.optimizer.weight_decay = 0;
  config_.parameters = {{.match = {"*"}, .lr_factor = 0.5F}};
  Make();
  client::ComputeTask one = Task(0, 4, 2);  // of its two minibatches there is one
  Step(one);
  const std::vector<float> half = gradient_;
  config_.parameters.clear();
  Make();
  Step(one);
  ForEachElement([&](size_t i) { ASSERT_NEAR(half[i], gradient_[i] / 2, 1e-7) << i; });
}

TEST_F(LocalStepsTest, MomentsStayFromOnePushToTheNext) {
  config_.optimizer.momentum = 0.9F;
  Make();
  Step(Task(0, 8, 2));
  const std::vector<float> first = gradient_;
  Step(Task(0, 8, 2));
  double further = 0;
  ForEachElement([&](size_t i) { further += std::fabs(gradient_[i]) - std::fabs(first[i]); });
  EXPECT_GT(further, 0) << "the same samples from the same parameters, with what came before";
}

TEST_F(LocalStepsTest, AStepThatIsToEndEarlySaysWhereItHas) {
  const client::ComputeTask task = Task(0, 12, 3);
  double loss = 0;
  client::ComputeTask two = task;
  two.end = 8;
  const std::vector<float> end = OneByOne(two, 0.1F, &loss);
  int minibatches = 0;
  Trainer::StepWatch watch;
  watch.on_end = [&](uint64_t samples) {
    EXPECT_EQ(samples, 4U);
    if (++minibatches == 2) {
      trainer_->EndEarly(task.step);
    }
    return true;
  };
  const client::ComputeResult result = Step(task, watch);
  EXPECT_EQ(minibatches, 2);
  EXPECT_EQ(result.samples, 8U);
  EXPECT_EQ(result.loss_sum, loss);
  ForEachElement([&](size_t i) { ASSERT_EQ(gradient_[i], parameters_[i] - end[i]) << i; });
}

TEST_F(LocalStepsTest, AStepThatHasNotBegunWhenItIsToEndMakesOneMinibatch) {
  trainer_->EndEarly(1);
  EXPECT_EQ(Step(Task(0, 12, 3)).samples, 4U);
  client::ComputeTask next = Task(0, 12, 3);
  next.step = 2;
  EXPECT_EQ(Step(next).samples, 12U) << "it was not meant";
}

TEST_F(LocalStepsTest, AStepThatIsGivenUpIsCancelled) {
  Trainer::StepWatch watch;
  watch.on_end = [](uint64_t /*samples*/) { return false; };
  const auto done = trainer_->Step(Task(0, 12, 3), {parameters_, gradient_}, watch);
  EXPECT_EQ(done.status().code(), StatusCode::kCancelled);
}

TEST_F(LocalStepsTest, NoTensorIsSaidToBeReadyBeforeAllIsDone) {
  Trainer::StepWatch watch;
  watch.on_ready = [](uint32_t tensor) { ADD_FAILURE() << tensor; };
  Step(Task(0, 12, 3), watch);
}

TEST_F(LocalStepsTest, ThePushIsRoundedAsTheJobSays) {
  Step(Task(0, 12, 3));
  const std::vector<float> whole = gradient_;
  config_.train.gradient_dtype = proto::GradientDtype::kBf16;
  Make();
  Step(Task(0, 12, 3));
  for (size_t tensor = 0; tensor < offsets_.size(); ++tensor) {
    const auto* const packed = reinterpret_cast<const uint16_t*>(&gradient_[offsets_[tensor]]);
    for (int64_t i = 0; i < trainer_->TensorElements()[tensor]; ++i) {
      const float value = std::bit_cast<float>(uint32_t{packed[i]} << 16U);
      const float exact = whole[offsets_[tensor] + static_cast<size_t>(i)];
      ASSERT_NEAR(value, exact, std::fabs(exact) / 256);
    }
  }
}

/// By itself, with gradients of our own.
class LocalStepsPartTest : public ::testing::Test {
 protected:
  LocalStepsPartTest() {
    config_.train.minibatch = 1;
    config_.optimizer.lr = 1;
    model_.tensors = {{"w", {2}}, {"mean", {2}}};
    model_.tensors[1].rule = UpdateRule::kAverage;
    model_.tensors[1].average_rate = 0.25F;
    steps_.emplace(config_, model_, kernels::MakeCpuBackend());
  }

  void Take(float w, float mean) {
    std::vector<float> a(2, w);
    std::vector<float> b(2, mean);
    const std::vector<std::span<float>> gradients = {a, b};
    EXPECT_TRUE(steps_->Take(gradients, 1, 0).ok());
  }

  std::vector<std::vector<float>> Finish() {
    std::vector<std::vector<float>> out(2, std::vector<float>(2));
    const std::vector<std::span<float>> spans = {out[0], out[1]};
    EXPECT_TRUE(steps_->Finish(spans).ok());
    return out;
  }

  proto::JobConfig config_;
  Model model_;
  std::vector<float> values_ = {10, 10};
  std::vector<std::span<const float>> start_ = {values_, values_};
  std::optional<LocalSteps> steps_;
};

TEST_F(LocalStepsPartTest, ObservationsHaveTheEffectOfEachInTurn) {
  ASSERT_TRUE(steps_->Begin(start_).ok());
  double average = 10;
  for (const float observed : {2.0F, 30.0F, -5.0F}) {
    Take(0, observed);
    average += 0.25 * (observed - average);
  }
  EXPECT_NEAR(steps_->parameters()[1][0], average, 1e-5) << "evaluations of its own see it";
  const float pushed = Finish()[1][0];
  const double rate = 1 - std::pow(0.75, 3);  // the servers' of three together
  EXPECT_NEAR(10 + rate * (pushed - 10), average, 1e-5);
}

TEST_F(LocalStepsPartTest, WithoutObservationsTheAverageStays) {
  ASSERT_TRUE(steps_->Begin(start_).ok());
  EXPECT_EQ(Finish()[1][0], 10);
}

TEST_F(LocalStepsPartTest, WhatIsNotFiniteIsLeftOutAndTold) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(steps_->Begin(start_).ok());
  Take(1, 1);
  Take(nan, 1);
  EXPECT_EQ(Finish()[0][0], 1) << "of the one that was finite";
  EXPECT_TRUE(steps_->is_diverging()) << "one of two";
  ASSERT_TRUE(steps_->Begin(start_).ok());
  EXPECT_FALSE(steps_->is_diverging());
  Take(1, 1);
  Take(nan, 1);
  Take(1, 1);
  EXPECT_EQ(Finish()[0][0], 2) << "of the two that were finite";
  EXPECT_FALSE(steps_->is_diverging()) << "one of three";
}

TEST_F(LocalStepsPartTest, AnUpdateThatWouldNotBeFiniteIsLeftOutAndTold) {
  ASSERT_TRUE(steps_->Begin(start_).ok());
  Take(std::numeric_limits<float>::max(), 1);
  Take(std::numeric_limits<float>::max(), 1);
  Finish();
  EXPECT_TRUE(steps_->is_diverging()) << "the second of two";
}

}  // namespace
}  // namespace ps::worker::test
