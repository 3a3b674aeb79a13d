#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {
namespace {

constexpr uint64_t kNanSeed = 3;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool HasNotFinite(const std::vector<float>& values) {
  return std::any_of(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
}

std::vector<OpCase> CasesWithSamples() {
  std::vector<OpCase> cases = AllOpCases();
  std::erase_if(cases, [](const OpCase& c) { return c.n == 0; });
  return cases;
}

/// The first value of x is in the window of some output, whatever the stride.
std::vector<float> OutputWithFirst(const OpCase& c, float value) {
  OpRunner runner(c, kNanSeed);
  runner.x[0] = value;
  runner.Prepare(true);
  runner.Forward(true);
  return runner.y;
}

/// Kinds that compare values and may lose a NaN in doing so; kernels/op.h says so.
bool Compares(const OpCase& c) {
  return c.kind == "relu" || c.kind == "max_pool";
}

/// Kinds whose outputs are bounded, whatever the input.
bool IsBounded(const OpCase& c) {
  return c.kind == "tanh" || c.kind == "sigmoid";
}

TEST(NotFiniteTest, NanInTheInputShowsInTheOutputOfOpsThatDoNotCompare) {
  for (const OpCase& c : CasesWithSamples()) {
    if (!Compares(c)) {
      EXPECT_TRUE(HasNotFinite(OutputWithFirst(c, kNan))) << c;
    }
  }
}

TEST(NotFiniteTest, InfinityInTheInputShowsInTheOutput) {
  for (const OpCase& c : CasesWithSamples()) {
    const std::vector<float> y = OutputWithFirst(c, kInfinity);
    EXPECT_TRUE(IsBounded(c) ? y[0] == 1 : HasNotFinite(y)) << c;
  }
}

TEST(NotFiniteTest, AComparingOpMakesOfNanNothingNew) {
  for (const OpCase& c : CasesWithSamples()) {
    if (!Compares(c)) {
      continue;
    }
    OpRunner runner(c, kNanSeed);
    runner.x[0] = kNan;
    runner.Prepare(true);
    runner.Forward(true);
    for (const float y : runner.y) {
      // A window of nothing but NaN may keep the value that the search for a maximum began with.
      const bool is_known = std::isnan(y) || y == 0.0F || y == -kInfinity ||
                            y == std::numeric_limits<float>::lowest() ||
                            std::find(runner.x.begin(), runner.x.end(), y) != runner.x.end();
      EXPECT_TRUE(is_known) << c << ": " << y;
    }
  }
}

TEST(NotFiniteTest, NanInTheGradientShowsBehindEveryOp) {
  for (const OpCase& c : CasesWithSamples()) {
    OpRunner runner(c, kNanSeed);
    std::fill(runner.dy.begin(), runner.dy.end(), kNan);
    std::fill(runner.x.begin(), runner.x.end(), 1.0F);  // positive, so that relu passes it on
    runner.Prepare(true);
    runner.Forward(true);
    runner.Backward();
    EXPECT_TRUE(c.vocabulary > 0 || HasNotFinite(runner.dx)) << c;
    if (!runner.grads.empty()) {
      EXPECT_TRUE(HasNotFinite(runner.grads[0])) << c;
    }
  }
}

}  // namespace
}  // namespace ps::kernels::test
