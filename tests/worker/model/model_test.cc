#include "worker/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "tests/worker/model/model_builder.h"
#include "worker/model/model_cost.h"

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

constexpr Shape kImage = {1, 28, 28};

int64_t TrainableCount(const Model& model) {
  int64_t count = 0;
  for (const TensorSpec& tensor : model.tensors) {
    count += tensor.rule == UpdateRule::kOptimizer ? tensor.element_count() : 0;
  }
  return count;
}

Model Zoo(const std::string& name, const Shape& input) {
  proto::ModelConfig config;
  config.name = name;
  Result<Model> model = MakeModel(config, input, 10);
  PS_CHECK(model.ok()) << model.status();
  return std::move(model).value();
}

std::string ErrorOf(Layers layers, const Shape& input = kImage, int64_t classes = 10) {
  proto::ModelConfig config;
  config.layers = std::move(layers);
  const Result<Model> model = MakeModel(config, input, classes);
  EXPECT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
  return std::string(model.status().message());
}

TEST(ModelZooTest, ModelsHaveThePublishedNumbersOfParameters) {
  EXPECT_EQ(Zoo("mlp", kImage).parameter_count(), 235146);
  EXPECT_EQ(Zoo("cnn", kImage).parameter_count(), 220234);
  const Model resnet = Zoo("resnet20", {3, 32, 32});
  EXPECT_EQ(TrainableCount(resnet), 272474);
  EXPECT_EQ(resnet.parameter_count(), 274042);  // with running statistics
}

TEST(ModelZooTest, AnUnknownNameListsTheKnownOnes) {
  proto::ModelConfig config;
  config.name = "cnm";
  const Result<Model> model = MakeModel(config, kImage, 10);
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(
      std::string(model.status().message()),
      HasSubstr("known are bert, cnn, gpt, mlp, resnet110, resnet20"));
}

TEST(ModelTest, ShapesFollowTheLayers) {
  const Model model = Zoo("cnn", kImage);
  EXPECT_EQ(model.layers[0].out, (Shape{32, 28, 28}));
  EXPECT_EQ(model.layers[2].out, (Shape{32, 14, 14}));
  EXPECT_EQ(model.layers[5].out, (Shape{64, 7, 7}));
  EXPECT_EQ(model.layers[6].out, (Shape{3136, 1, 1}));
  EXPECT_EQ(model.layers.back().out, (Shape{10, 1, 1}));
}

TEST(ModelTest, TensorsAreNamedByLayerAndInitialisedByKind) {
  proto::ModelConfig config;
  config.layers = {Conv2d(4, 3), BatchNorm(0.2F), GlobalAvgPool(), Linear(10)};
  const Result<Model> model = MakeModel(config, {2, 8, 8}, 10);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<TensorSpec>& tensors = model->tensors;
  ASSERT_EQ(tensors.size(), 8U);

  EXPECT_EQ(tensors[0].name, "0.conv2d.weight");
  EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{4, 2, 3, 3}));
  EXPECT_EQ(tensors[0].init, InitKind::kNormal);
  EXPECT_FLOAT_EQ(tensors[0].init_scale, std::sqrt(2.0F / 18.0F));
  EXPECT_TRUE(tensors[0].has_weight_decay);

  EXPECT_EQ(tensors[1].name, "0.conv2d.bias");
  EXPECT_EQ(tensors[1].init_scale, 0.0F);
  EXPECT_FALSE(tensors[1].has_weight_decay);

  EXPECT_EQ(tensors[2].name, "1.batch_norm.gamma");
  EXPECT_EQ(tensors[2].init_scale, 1.0F);
  EXPECT_EQ(tensors[2].rule, UpdateRule::kOptimizer);
  EXPECT_EQ(tensors[3].name, "1.batch_norm.beta");
  EXPECT_EQ(tensors[4].name, "1.batch_norm.running_mean");
  EXPECT_EQ(tensors[4].rule, UpdateRule::kAverage);
  EXPECT_EQ(tensors[4].average_rate, 0.2F);
  EXPECT_EQ(tensors[5].name, "1.batch_norm.running_variance");
  EXPECT_EQ(tensors[5].init_scale, 1.0F);

  EXPECT_EQ(tensors[6].name, "3.linear.weight");
  EXPECT_EQ(tensors[6].shape, (std::vector<int64_t>{10, 4}));
  EXPECT_TRUE(tensors[6].has_weight_decay);
}

TEST(ModelTest, WeightsOfAGroupedConvolutionHaveTheChannelsOfAGroup) {
  proto::ModelConfig config;
  config.layers = {
      Grouped(4, Conv2d(8, 3)), Grouped(8, Conv2d(16, 5)), Conv2d(6, 1), Flatten(), Linear(2)};
  const Result<Model> model = MakeModel(config, {4, 6, 6}, 2);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<TensorSpec>& tensors = model->tensors;
  EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{8, 1, 3, 3}));
  EXPECT_FLOAT_EQ(tensors[0].init_scale, std::sqrt(2.0F / 9.0F));
  EXPECT_EQ(tensors[1].shape, std::vector<int64_t>{8});
  EXPECT_EQ(tensors[2].shape, (std::vector<int64_t>{16, 1, 5, 5}));
  EXPECT_EQ(tensors[4].shape, (std::vector<int64_t>{6, 16, 1, 1}));
  const std::vector<LayerCost> costs = CostsOf(*model);
  EXPECT_EQ(costs[0].flops, 2 * 9 * (8 * 36));
  EXPECT_EQ(costs[0].parameters, 8 * 9 + 8);
  EXPECT_EQ(costs[1].flops, 2 * 25 * (16 * 36));
  EXPECT_EQ(costs[2].flops, 2 * 16 * (6 * 36));
}

TEST(ModelTest, NestedTensorsCarryTheirPath) {
  proto::ModelConfig config;
  config.layers = {Residual({Conv2d(4, 3)}, {Conv2d(4, 1)}), GlobalAvgPool(), Linear(2)};
  const Result<Model> model = MakeModel(config, {2, 8, 8}, 2);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->tensors[0].name, "0.residual.body.0.conv2d.weight");
  EXPECT_EQ(model->tensors[2].name, "0.residual.shortcut.0.conv2d.weight");
  EXPECT_EQ(model->layers[0].shortcut[0].first_tensor, 2U);
}

TEST(ModelTest, APoolWithoutStrideStepsByItsKernel) {
  proto::LayerConfig pool = MaxPool(3);
  pool.stride = 0;
  proto::ModelConfig config;
  config.layers = {pool, Flatten(), Linear(10)};
  const Result<Model> model = MakeModel(config, kImage, 10);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->layers[0].out, (Shape{1, 9, 9}));
}

TEST(ModelTest, TheLossMayStandAtTheEndAndChangesNothing) {
  proto::ModelConfig config;
  config.layers = {Flatten(), Linear(10)};
  const Result<Model> without = MakeModel(config, kImage, 10);
  config.layers.push_back(Simple(proto::LayerKind::kSoftmaxCrossEntropy));
  const Result<Model> with = MakeModel(config, kImage, 10);
  ASSERT_TRUE(without.ok() && with.ok()) << with.status();
  EXPECT_EQ(with->layers.size(), 2U);
  EXPECT_EQ(with->parameter_count(), without->parameter_count());
}

TEST(ModelErrorTest, TheLossStandsNowhereButAtTheEnd) {
  const proto::LayerConfig loss = Simple(proto::LayerKind::kSoftmaxCrossEntropy);
  EXPECT_THAT(
      ErrorOf({Flatten(), loss, Linear(10)}),
      HasSubstr("model.layers[1] (softmax_cross_entropy): the loss can stand only at the end"));
  EXPECT_THAT(ErrorOf({Flatten(), Linear(10), loss, loss}), HasSubstr("model.layers[2] (softmax"));
  EXPECT_THAT(
      ErrorOf({Residual({Conv2d(1, 3), loss}, {}), Flatten(), Linear(10)}),
      HasSubstr("model.layers[0].layers[1] (softmax_cross_entropy)"));
  EXPECT_THAT(ErrorOf({loss}), HasSubstr("model.layers[0] (softmax_cross_entropy)"));
}

TEST(ModelTest, TheLastLayerSaysWhatIsLearnt) {
  proto::ModelConfig config;
  config.layers = {Flatten(), Linear(2), Huber(0.5F)};
  const Model numbers = MakeModel(config, kImage, 2, 2).value();
  EXPECT_EQ(numbers.loss.kind, kernels::LossKind::kHuber);
  EXPECT_EQ(numbers.loss.delta, 0.5F);
  EXPECT_EQ(numbers.output_count(), 2);
  EXPECT_EQ(numbers.layers.size(), 2U);
  config.layers = {Flatten(), Linear(1), Simple(proto::LayerKind::kMse)};
  EXPECT_TRUE(MakeModel(config, kImage, 1, 1).ok()) << "one number is enough";
  config.layers = {Flatten(), Linear(3), CrossEntropy(0.1F, {1, 2, 3})};
  const Model classes = MakeModel(config, kImage, 3).value();
  EXPECT_EQ(classes.loss.smoothing, 0.1F);
  EXPECT_EQ(classes.loss.class_weights, (std::vector<float>{1, 2, 3}));
}

TEST(ModelErrorTest, OutputsAndTargetsAreAsMany) {
  proto::ModelConfig config;
  config.layers = {Flatten(), Linear(3), Simple(proto::LayerKind::kMse)};
  EXPECT_EQ(
      MakeModel(config, kImage, 2, 2).status().message(),
      "model.layers[1] (linear): the model ends in 3, and the data has 2 numbers a sample to "
      "learn; "
      "end with a linear layer with out 2 in front of the loss");
  config.layers = {Flatten(), Linear(3), CrossEntropy(0, {1, 2})};
  EXPECT_EQ(
      MakeModel(config, kImage, 3).status().message(),
      "model.layers[2] (softmax_cross_entropy): class_weights has 2 weights, and the data has 3 "
      "classes; give one for each, in the order of the classes");
}

TEST(ModelErrorTest, AWindowLargerThanItsInputNamesTheLayer) {
  EXPECT_EQ(
      ErrorOf({Conv2d(4, 3), MaxPool(14), MaxPool(2), Conv2d(8, 5, 1, 0), Flatten(), Linear(10)}),
      "model.layers[3] (conv2d): kernel 5 does not fit input 4 with padding 0");
}

TEST(ModelErrorTest, LinearOnAnImageSaysToFlatten) {
  const std::string error = ErrorOf({Conv2d(4, 3), Linear(10)});
  EXPECT_THAT(error, HasSubstr("model.layers[1] (linear): input 4x28x28 is not flat"));
  EXPECT_THAT(error, HasSubstr("flatten"));
}

TEST(ModelErrorTest, TheLastLayerMustHaveOneOutputPerClass) {
  EXPECT_THAT(ErrorOf({Flatten(), Linear(9)}), HasSubstr("end with a linear layer with out 10"));
  EXPECT_THAT(ErrorOf({Conv2d(10, 3)}), HasSubstr("the model ends in 10x28x28"));
}

TEST(ModelErrorTest, ResidualPathsMustAgree) {
  EXPECT_EQ(
      ErrorOf({Residual({Conv2d(4, 3)}, {}), Flatten(), Linear(10)}),
      "model.layers[0] (residual): its body ends in 4x28x28, its input is 1x28x28; they are added "
      "and must "
      "be equal");
  EXPECT_THAT(
      ErrorOf({Residual({Conv2d(4, 3)}, {Conv2d(4, 3, 2)}), Flatten(), Linear(10)}),
      HasSubstr("its shortcut ends in 4x14x14"));
  EXPECT_THAT(
      ErrorOf({Residual({}, {Conv2d(4, 3)}), Flatten(), Linear(10)}),
      HasSubstr("model.layers[0] (residual): it has no layers"));
}

TEST(ModelErrorTest, ANestedLayerIsNamedByItsPath) {
  EXPECT_THAT(
      ErrorOf({Residual({Conv2d(4, 3), Linear(3)}, {}), Flatten(), Linear(10)}),
      HasSubstr("model.layers[0].layers[1] (linear): "));
}

TEST(ModelErrorTest, OptionsOutsideOfTheirRangeAreNamed) {
  EXPECT_THAT(ErrorOf({Flatten(), Linear(0)}), HasSubstr("model.layers[1] (linear): out is 0"));
  EXPECT_THAT(ErrorOf({Conv2d(-1, 3)}), HasSubstr("model.layers[0] (conv2d): out is -1"));
  EXPECT_THAT(ErrorOf({Conv2d(4, 0)}), HasSubstr("kernel is 0"));
  EXPECT_THAT(ErrorOf({Conv2d(4, 3, -2)}), HasSubstr("stride is -2"));
  EXPECT_THAT(ErrorOf({Conv2d(4, 3, 1, -1)}), HasSubstr("padding is -1"));
  EXPECT_THAT(ErrorOf({Dropout(1.0F)}), HasSubstr("model.layers[0] (dropout): rate is 1"));
  EXPECT_THAT(ErrorOf({Dropout(std::nanf(""))}), HasSubstr("rate is nan"));
  EXPECT_THAT(ErrorOf({BatchNorm(0)}), HasSubstr("momentum is 0"));
  proto::LayerConfig pool = MaxPool(3);
  pool.padding = 2;
  EXPECT_THAT(ErrorOf({pool}), HasSubstr("padding 2 is more than half of kernel 3"));
}

TEST(ModelErrorTest, GroupsDivideTheChannels) {
  const auto made = [](int32_t groups) {
    proto::ModelConfig config;
    config.layers = {Conv2d(6, 3), GroupNorm(groups), Flatten(), Linear(3)};
    return MakeModel(config, {1, 2, 2}, 3);
  };
  EXPECT_EQ(
      made(4).status().message(),
      "model.layers[1] (group_norm): groups 4 do not divide the 6 channels");
  const Result<Model> model = made(3);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->tensors[2].name, "1.group_norm.gamma");
  EXPECT_EQ(model->tensors[2].shape, std::vector<int64_t>{6});
  EXPECT_EQ(model->tensors[2].init_scale, 1);
  EXPECT_EQ(model->tensors[3].name, "1.group_norm.beta");
  EXPECT_EQ(model->tensors[3].init_scale, 0);
}

TEST(ModelErrorTest, GroupsOfAConvolutionDivideItsChannelsOnBothSides) {
  const auto error_of = [](int32_t out, int32_t groups) {
    return ErrorOf({Grouped(groups, Conv2d(out, 3)), Flatten(), Linear(10)}, {12, 4, 4});
  };
  EXPECT_EQ(
      error_of(18, 4),
      "model.layers[0] (conv2d): groups 4 do not divide both the 12 channels of its input and the "
      "18 of its output; allowed are the divisors of 6");
  EXPECT_THAT(error_of(18, 9), HasSubstr("allowed are the divisors of 6"));
  EXPECT_THAT(error_of(10, 12), HasSubstr("allowed are the divisors of 2"));
  EXPECT_THAT(error_of(12, 24), HasSubstr("allowed are the divisors of 12"));
  EXPECT_THAT(error_of(12, -1), HasSubstr("groups is -1; allowed is 1 to 1048576"));
  EXPECT_THAT(
      ErrorOf({Residual({Grouped(5, Conv2d(12, 3))}, {}), Flatten(), Linear(10)}, {12, 4, 4}),
      HasSubstr("model.layers[0].layers[0] (conv2d): groups 5 do not divide"));
}

TEST(ModelErrorTest, SizesBeyondTheLimitsAreRefused) {
  EXPECT_THAT(
      ErrorOf({Flatten(), Linear(1 << 20), Linear(1 << 20), Linear(10)}),
      HasSubstr("model.layers[2] (linear): a weight of 1048576x1048576 has more than"));
  EXPECT_THAT(
      ErrorOf({Conv2d(1 << 20, 1), Conv2d(1 << 20, 1024)}, {1, 1024, 1024}),
      HasSubstr("model.layers[0] (conv2d): output: size 1048576x1024x1024 has more than"));
  EXPECT_THAT(ErrorOf({Flatten(), Linear(10)}, {0, 28, 28}), HasSubstr("model input"));
  EXPECT_THAT(ErrorOf({Flatten(), Linear(1)}, kImage, 1), HasSubstr("number of classes"));
}

TEST(ModelErrorTest, AModelWithoutParametersIsRefused) {
  EXPECT_THAT(ErrorOf({Flatten()}, {2, 1, 1}, 2), HasSubstr("nothing to train"));
}

}  // namespace
}  // namespace ps::worker::test
