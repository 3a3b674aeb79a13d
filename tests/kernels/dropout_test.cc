#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/cpu/ops.h"

namespace ps::kernels {
namespace {

constexpr int64_t kElements = 1009;
constexpr int64_t kBatch = 5;

std::vector<float> Drop(const DropoutOptions& options, uint64_t step, bool training) {
  const std::unique_ptr<Op> op = MakeDropout(options);
  const Status status = op->Prepare(kBatch, training);
  EXPECT_TRUE(status.ok()) << status;
  const std::vector<float> x(kElements * kBatch, 1.0F);
  std::vector<float> y(x.size());
  op->Forward({.n = kBatch, .x = x.data(), .y = y.data(), .training = training, .step = &step});
  return y;
}

TEST(DropoutTest, ZeroesItsShareAndScalesTheRest) {
  for (const float rate : {0.0F, 0.1F, 0.5F, 0.9F}) {
    const std::vector<float> y = Drop({.elements = kElements, .rate = rate, .seed = 7}, 1, true);
    const auto zeroes = static_cast<double>(std::count(y.begin(), y.end(), 0.0F));
    const auto size = static_cast<double>(y.size());
    // Five standard deviations of a binomial distribution.
    EXPECT_NEAR(zeroes, size * rate, 5 * std::sqrt(size * rate * (1 - rate)) + 1e-9) << rate;
    for (const float value : y) {
      EXPECT_TRUE(value == 0.0F || value == 1.0F / (1.0F - rate)) << value;
    }
  }
}

TEST(DropoutTest, TheMaskIsAFunctionOfSeedLayerStepAndElement) {
  const DropoutOptions options{.elements = kElements, .rate = 0.5F, .seed = 7, .layer = 2};
  const std::vector<float> y = Drop(options, 5, true);
  EXPECT_EQ(Drop(options, 5, true), y);
  EXPECT_NE(Drop(options, 6, true), y);
  DropoutOptions other = options;
  other.seed = 8;
  EXPECT_NE(Drop(other, 5, true), y);
  other = options;
  other.layer = 3;
  EXPECT_NE(Drop(other, 5, true), y);
}

TEST(DropoutTest, EvaluationPassesEverything) {
  const std::vector<float> y = Drop({.elements = kElements, .rate = 0.9F}, 1, false);
  EXPECT_EQ(y, std::vector<float>(kElements * kBatch, 1.0F));
}

TEST(DropoutTest, BackwardUsesTheMaskOfForward) {
  const std::unique_ptr<Op> op = MakeDropout({.elements = kElements, .rate = 0.3F, .seed = 1});
  ASSERT_TRUE(op->Prepare(1, true).ok());
  std::vector<float> x(kElements, 1.0F);
  std::vector<float> dy(kElements, 1.0F);
  // In place, as a network runs it.
  const uint64_t step = 3;
  op->Forward({.n = 1, .x = x.data(), .y = x.data(), .training = true, .step = &step});
  op->Backward({.n = 1, .dy = dy.data(), .dx = dy.data()});
  EXPECT_EQ(dy, x);
}

}  // namespace
}  // namespace ps::kernels
