#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {
namespace {

constexpr uint64_t kBatchNormSeed = 17;

TEST(BatchNormTest, EvaluationUsesRunningStatistics) {
  const OpCase c = OpCasesOf("batch_norm")[1];  // 3 samples, 7 channels, 3x5
  OpRunner runner(c, kBatchNormSeed);
  for (float& variance : runner.params[3]) {
    variance = variance * variance + 0.1F;
  }
  runner.Prepare(false);
  runner.Forward(false);
  const Values expected =
      ReferenceBatchNormEvaluation(7, 15, 1e-3)(3, ToDouble(runner.x), DoubleParameters(runner));
  EXPECT_LE(NormalisedError(runner.y, expected), 1e-11);
}

TEST(BatchNormTest, ObservationsAreMeanAndUnbiasedVarianceOfTheBatch) {
  OpCase c;
  c.n = 4;
  c.in_elements = c.out_elements = 1;
  c.parameter_sizes = {1, 1, 1, 1};
  c.spec = BatchNormOptions{.channels = 1};
  OpRunner runner(c, kBatchNormSeed);
  runner.x = {1, 2, 3, 6};
  runner.Prepare(true);
  runner.Forward(true);
  runner.Backward();
  EXPECT_FLOAT_EQ(runner.grads[2][0], 3.0F);
  EXPECT_FLOAT_EQ(runner.grads[3][0], 14.0F / 3.0F);
}

TEST(BatchNormTest, ASingleValueHasNoVariance) {
  OpCase c;
  c.in_elements = c.out_elements = 1;
  c.parameter_sizes = {1, 1, 1, 1};
  c.spec = BatchNormOptions{.channels = 1, .input_gradient = false};
  OpRunner runner(c, kBatchNormSeed);
  runner.Prepare(true);
  runner.Forward(true);
  runner.Backward();
  EXPECT_FLOAT_EQ(runner.y[0], runner.params[1][0]);
  EXPECT_FLOAT_EQ(runner.grads[2][0], runner.x[0]);
  EXPECT_EQ(runner.grads[3][0], 0.0F);
}

/// Batch norms that add a side: one value each, around a warp, a prime; several pixels.
std::vector<OpCase> AddingCases() {
  std::vector<OpCase> cases = OpCasesOf("batch_norm");
  for (const int64_t channels : {1, 31, 32, 33, 127}) {
    OpCase c = cases[0];  // 3 samples of a channel
    c.sizes = "_3_" + std::to_string(channels) + "_1_1";
    c.in_elements = c.out_elements = channels;
    c.parameter_sizes = {channels, channels, channels, channels};
    c.spec = BatchNormOptions{.channels = channels, .epsilon = 1e-3F};
    c.reference = ReferenceBatchNorm(channels, 1, 1e-3);
    cases.push_back(std::move(c));
  }
  for (OpCase& c : cases) {
    std::get<BatchNormOptions>(c.spec).adds_side = true;
  }
  return cases;
}

/// What it is to compute: relu or nothing, of the batch norm and the side.
Values SumOf(
    const OpRunner& runner, const Values& x, const Values& side, const Parameters& params) {
  const bool has_relu = std::get<BatchNormOptions>(runner.c.spec).activation == Activation::kRelu;
  Values y = runner.c.reference(runner.c.n, x, params);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = has_relu ? std::max(y[i] + side[i], 0.0) : y[i] + side[i];
  }
  return y;
}

void ExpectAddsAsTheReference(const OpCase& c) {
  OpRunner runner(c, kBatchNormSeed);
  runner.Prepare(true);
  runner.Forward(true);
  Values x = ToDouble(runner.x);
  Values side = ToDouble(runner.side);
  Parameters params = DoubleParameters(runner);
  EXPECT_LE(NormalisedError(runner.y, SumOf(runner, x, side, params)), c.nmse_max) << c;
  const std::vector<float> dy = runner.dy;
  if (std::get<BatchNormOptions>(c.spec).activation == Activation::kRelu) {
    for (size_t i = 0; i < runner.dy.size(); ++i) {
      runner.dy[i] = runner.y[i] > 0 ? dy[i] : 0;
    }
  }
  EXPECT_FALSE(runner.op->traits().backward_reads_output);
  runner.Backward();
  const auto loss = [&] { return Dot(dy, SumOf(runner, x, side, params)); };
  EXPECT_LE(GradientError(runner.dx, &x, loss), c.gradient_nmse_max) << c << " dx";
  EXPECT_LE(GradientError(runner.dy, &side, loss), c.gradient_nmse_max) << c << " side";
  EXPECT_LE(GradientError(runner.grads[0], &params[0], loss), c.gradient_nmse_max) << c << " gamma";
  EXPECT_LE(GradientError(runner.grads[1], &params[1], loss), c.gradient_nmse_max) << c << " beta";
}

TEST(BatchNormTest, AddsASideInFrontOfItsActivationOrIsRefused) {
  for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
    for (OpCase& c : AddingCases()) {
      std::get<BatchNormOptions>(c.spec).activation = activation;
      if (BackendUnderTest()->is_host_memory()) {
        const auto stream = BackendUnderTest()->MakeStream().value();
        EXPECT_EQ(stream->MakeOp(c.spec).status().code(), StatusCode::kUnsupported) << c;
      } else {
        ExpectAddsAsTheReference(c);
      }
    }
  }
}

}  // namespace
}  // namespace ps::kernels::test
