#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ps::kernels::test
