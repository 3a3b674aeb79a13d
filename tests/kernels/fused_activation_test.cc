#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <variant>
#include <vector>

#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {
namespace {

constexpr uint64_t kFusedSeed = 29;
// Another kernel of cuBLASLt may add up in another order; our own have the same bits.
constexpr double kFusedNmseMax = 1e-11;

/// The row with an activation at its end. Returns false where the op has none.
bool Fuse(Activation activation, OpCase* c) {
  const auto set = [&](auto& options) {
    if constexpr (requires { options.activation; }) {
      options.activation = activation;
      return true;
    }
    return false;
  };
  return std::visit(set, c->spec);
}

/// y of an activation, and of dy what goes to its input.
void Activate(Activation activation, float* y, float* dy) {
  if (activation == Activation::kRelu) {
    const bool is_on = *y > 0;
    *y = is_on ? *y : 0;
    *dy = is_on ? *dy : 0;
    return;
  }
  const auto x = static_cast<double>(*y);
  const double share = 0.5 * (1 + std::erf(x / std::numbers::sqrt2));
  const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
  *y = static_cast<float>(x * share);
  *dy = static_cast<float>(static_cast<double>(*dy) * (share + x * density));
}

void ExpectFusedEqualsBoth(
    Activation activation, const OpCase& plain_case, const OpCase& fused_case) {
  OpRunner plain(plain_case, kFusedSeed);
  OpRunner fused(fused_case, kFusedSeed);
  for (OpRunner* runner : {&plain, &fused}) {
    runner->Prepare(true);
    runner->Forward(true);
  }
  const std::vector<float> fused_y = fused.y;
  if (!fused.op->traits().backward_reads_output) {
    std::ranges::fill(fused.y, std::numeric_limits<float>::quiet_NaN());
  }
  for (size_t i = 0; i < plain.y.size(); ++i) {
    Activate(activation, &plain.y[i], &plain.dy[i]);
  }
  plain.Backward();
  fused.Backward();
  const auto expect_near = [&](const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_LE(NormalisedError(a, ToDouble(b)), kFusedNmseMax) << plain_case;
  };
  expect_near(fused_y, plain.y);
  expect_near(fused.dx, plain.dx);
  for (size_t i = 0; i < plain.grads.size(); ++i) {
    expect_near(fused.grads[i], plain.grads[i]);
  }
}

TEST(FusedActivationTest, IsTheOpAndThenTheActivationOrIsRefused) {
  for (const Activation activation : {Activation::kRelu, Activation::kGelu}) {
    int count = 0;
    for (const OpCase& c : AllOpCases()) {
      OpCase fused = c;
      if (!Fuse(activation, &fused)) {
        continue;
      }
      const bool is_taken = activation == Activation::kRelu || c.kind == "linear";
      if (BackendUnderTest()->is_host_memory() || !is_taken) {
        const auto stream = BackendUnderTest()->MakeStream().value();
        EXPECT_EQ(stream->MakeOp(fused.spec).status().code(), StatusCode::kUnsupported) << c;
      } else {
        ExpectFusedEqualsBoth(activation, c, fused);
        ++count;
      }
    }
    EXPECT_GE(count, BackendUnderTest()->is_host_memory() ? 0 : 10);
  }
}

/// Without training there is nothing to keep.
TEST(FusedActivationTest, GeluIsTheSameInEvaluation) {
  OpCase c = OpCasesOf("linear")[3];
  ASSERT_TRUE(Fuse(Activation::kGelu, &c));
  if (BackendUnderTest()->is_host_memory()) {
    GTEST_SKIP() << "the CPU's ops have no activation";
  }
  OpRunner training(c, kFusedSeed);
  training.Prepare(true);
  training.Forward(true);
  OpRunner evaluation(c, kFusedSeed);
  evaluation.Prepare(false);
  evaluation.Forward(false);
  EXPECT_EQ(evaluation.y, training.y);
}

}  // namespace
}  // namespace ps::kernels::test
