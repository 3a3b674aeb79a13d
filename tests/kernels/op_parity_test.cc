#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string>

#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {
namespace {

constexpr uint64_t kParitySeed = 17;

/// By kind of op; a test goes through the rows of its kind.
class OpParity : public testing::TestWithParam<std::string> {};

TEST_P(OpParity, ForwardEqualsTheReferenceWithinTheBound) {
  for (const OpCase& c : OpCasesOf(GetParam())) {
    OpRunner runner(c, kParitySeed);
    runner.Prepare(true);
    runner.Forward(true);
    const Values expected = c.reference(c.n, ToDouble(runner.x), DoubleParameters(runner));
    EXPECT_LE(NormalisedError(runner.y, expected), c.nmse_max) << c;
  }
}

TEST_P(OpParity, BackwardEqualsFiniteDifferencesOfTheReference) {
  for (const OpCase& c : OpCasesOf(GetParam())) {
    OpRunner runner(c, kParitySeed);
    runner.Prepare(true);
    runner.Forward(true);
    runner.Backward();
    Values x = ToDouble(runner.x);
    Parameters params = DoubleParameters(runner);
    const auto loss = [&] { return Dot(runner.dy, c.reference(c.n, x, params)); };
    if (c.vocabulary == 0) {
      EXPECT_LE(GradientError(runner.dx, &x, loss), c.gradient_nmse_max) << c << " dx";
    }
    // The last two of batch norm are observations, not gradients.
    const size_t gradient_count = std::min<size_t>(params.size(), 2);
    for (size_t i = 0; i < gradient_count; ++i) {
      EXPECT_LE(GradientError(runner.grads[i], &params[i], loss), c.gradient_nmse_max)
          << c << " parameter " << i;
    }
  }
}

/// As a model has them; in the other tests they lie at odd addresses. A device may multiply
/// otherwise then.
TEST_P(OpParity, AlignedParametersGiveTheSameResultsWithinTheBound) {
  for (const OpCase& c : OpCasesOf(GetParam())) {
    OpRunner aligned(c, kParitySeed, BackendUnderTest(), {0, 0, 0, 0});
    OpRunner odd(c, kParitySeed);
    for (OpRunner* runner : {&aligned, &odd}) {
      runner->Prepare(true);
      runner->Forward(true);
      runner->Backward();
    }
    EXPECT_LE(NormalisedError(aligned.y, ToDouble(odd.y)), c.nmse_max) << c;
    EXPECT_LE(NormalisedError(aligned.dx, ToDouble(odd.dx)), c.gradient_nmse_max) << c << " dx";
    for (size_t i = 0; i < odd.grads.size(); ++i) {
      EXPECT_LE(NormalisedError(aligned.grads[i], ToDouble(odd.grads[i])), c.gradient_nmse_max)
          << c << " parameter " << i;
    }
  }
}

TEST_P(OpParity, SameInputGivesTheSameBits) {
  for (const OpCase& c : OpCasesOf(GetParam())) {
    OpRunner first(c, kParitySeed);
    OpRunner second(c, kParitySeed);
    for (OpRunner* runner : {&first, &second, &second}) {
      runner->Prepare(true);
      runner->Forward(true);
      runner->Backward();
    }
    EXPECT_EQ(first.y, second.y) << c;
    EXPECT_EQ(first.dx, second.dx) << c;
    EXPECT_EQ(first.grads, second.grads) << c;
  }
}

TEST_P(OpParity, ChangingBatchSizesKeepResults) {
  const std::vector<OpCase> cases = OpCasesOf(GetParam());
  for (size_t i = 0; i < cases.size(); ++i) {
    const OpCase& c = cases[i];
    const bool is_last_of_precision = std::none_of(
        cases.begin() + static_cast<std::ptrdiff_t>(i) + 1, cases.end(), [&](const OpCase& other) {
          return other.precision == c.precision;
        });
    if (!is_last_of_precision) {
      continue;
    }
    OpRunner runner(c, kParitySeed);
    runner.Prepare(true);
    runner.Forward(true);
    runner.Backward();
    const std::vector<float> y = runner.y;
    const std::vector<float> dx = runner.dx;
    // More sizes than the op keeps plans for, so that its own is made again.
    for (int64_t n = 1; n <= 9; ++n) {
      ASSERT_TRUE(runner.op->Prepare(n, n == 2).ok());
    }
    runner.Prepare(true);
    runner.Forward(true);
    runner.Backward();
    EXPECT_EQ(runner.y, y) << c;
    EXPECT_EQ(runner.dx, dx) << c;
  }
}

float InBf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffU + (bits >> 16U & 1U)) & 0xffff0000U);
}

std::vector<OpCase> Bf16Cases() {
  std::vector<OpCase> cases = AllOpCases();
  std::erase_if(cases, [](const OpCase& c) { return c.precision != Precision::kBf16; });
  return cases;
}

/// Attention rounds what it has computed too, so it is not among them.
TEST(Bf16ParityTest, ProductsAreThoseOfRoundedFactorsAddedUpInF32) {
  constexpr double kNmseMax = 1e-10;
  std::vector<OpCase> cases = Bf16Cases();
  std::erase_if(cases, [](const OpCase& c) { return c.kind == "attention"; });
  EXPECT_GE(cases.size(), 5U);
  for (const OpCase& c : cases) {
    const OpCase plain = InPrecision(c, Precision::kF32);
    OpRunner actual(c, kParitySeed);
    OpRunner expected(plain, kParitySeed);
    for (std::vector<float>* factors : {&expected.x, &expected.params[0], &expected.dy}) {
      std::transform(factors->begin(), factors->end(), factors->begin(), &InBf16);
    }
    for (OpRunner* runner : {&actual, &expected}) {
      runner->Prepare(true);
      runner->Forward(true);
      runner->Backward();
    }
    EXPECT_LE(NormalisedError(actual.y, ToDouble(expected.y)), kNmseMax) << c;
    EXPECT_LE(NormalisedError(actual.dx, ToDouble(expected.dx)), kNmseMax) << c;
    EXPECT_LE(NormalisedError(actual.grads[0], ToDouble(expected.grads[0])), kNmseMax) << c;
  }
}

TEST(Bf16ParityTest, NoResultIsThatOfF32) {
  constexpr double kNmseMin = 1e-8;
  std::vector<OpCase> cases = Bf16Cases();
  std::erase_if(cases, [](const OpCase& c) { return c.n == 0; });
  for (const OpCase& c : cases) {
    const OpCase plain = InPrecision(c, Precision::kF32);
    OpRunner rounded(c, kParitySeed);
    OpRunner whole(plain, kParitySeed);
    for (OpRunner* runner : {&rounded, &whole}) {
      runner->Prepare(true);
      runner->Forward(true);
      runner->Backward();
    }
    EXPECT_GE(NormalisedError(rounded.y, ToDouble(whole.y)), kNmseMin) << c;
    EXPECT_GE(NormalisedError(rounded.dx, ToDouble(whole.dx)), kNmseMin) << c;
  }
}

TEST_P(OpParity, RunsInPlaceWhereItSaysSo) {
  for (const OpCase& c : OpCasesOf(GetParam())) {
    OpRunner runner(c, kParitySeed);
    if (!runner.op->traits().runs_in_place) {
      continue;
    }
    runner.Prepare(true);
    runner.Forward(true);
    runner.Backward();
    OpRunner in_place(c, kParitySeed);
    in_place.Prepare(true);
    in_place.RunInPlace();
    EXPECT_EQ(in_place.y, runner.y) << c;
    EXPECT_EQ(in_place.dx, runner.dx) << c;
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, OpParity, testing::ValuesIn(AllOpKinds()), [](const auto& kind) {
  return kind.param;
});

}  // namespace
}  // namespace ps::kernels::test
