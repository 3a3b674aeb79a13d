#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {
namespace {

constexpr uint64_t kFusedSeed = 29;
// Another kernel of cuBLASLt may add up in another order; our own have the same bits.
constexpr double kFusedNmseMax = 1e-11;

/// The row with relu at its end. Returns false where the op has no activation.
bool Fuse(OpCase* c) {
  const auto set = [](auto& options) {
    if constexpr (requires { options.activation; }) {
      options.activation = Activation::kRelu;
      return true;
    }
    return false;
  };
  return std::visit(set, c->spec);
}

void ExpectFusedEqualsBoth(const OpCase& plain_case, const OpCase& fused_case) {
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
    const bool is_on = plain.y[i] > 0;
    plain.y[i] = is_on ? plain.y[i] : 0;
    plain.dy[i] = is_on ? plain.dy[i] : 0;
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

TEST(FusedActivationTest, IsTheOpAndThenReluOrIsRefused) {
  int count = 0;
  for (const OpCase& c : AllOpCases()) {
    OpCase fused = c;
    if (!Fuse(&fused)) {
      continue;
    }
    ++count;
    if (BackendUnderTest()->is_host_memory()) {
      const auto stream = BackendUnderTest()->MakeStream().value();
      EXPECT_EQ(stream->MakeOp(fused.spec).status().code(), StatusCode::kUnsupported) << c;
    } else {
      ExpectFusedEqualsBoth(c, fused);
    }
  }
  EXPECT_GE(count, 20);
}

}  // namespace
}  // namespace ps::kernels::test
