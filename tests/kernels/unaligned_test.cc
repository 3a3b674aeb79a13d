#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/op_runner.h"

// Devices take four values at a time where addresses and sizes allow it. What comes out may not
// depend on that.

namespace ps::kernels::test {
namespace {

constexpr uint64_t kUnalignedSeed = 41;
/// Sums may be added up in another order, and multiplications fused with additions or not.
constexpr double kUnalignedNmseMax = 1e-12;

/// Requires: the op has no parameters.
OpCase DropoutCase(int64_t n, int64_t elements) {
  OpCase c = OpCasesOf("relu")[0];
  c.kind = "dropout";
  c.sizes = "_" + std::to_string(n) + "_" + std::to_string(elements);
  c.n = n;
  c.in_elements = c.out_elements = elements;
  c.spec = DropoutOptions{.elements = elements, .rate = 0.25F, .seed = 3, .layer = 1};
  return c;
}

/// Around a group of four, and what some threads have more than one of.
std::vector<OpCase> UnalignedCases() {
  std::vector<OpCase> cases;
  for (const char* const kind :
       {"relu", "gelu", "max_pool", "avg_pool", "layer_norm", "batch_norm", "embedding"}) {
    for (OpCase& c : OpCasesOf(kind)) {
      cases.push_back(std::move(c));
    }
  }
  for (const int64_t elements : {1, 2, 3, 4, 5, 6, 7, 8, 9, 127, 4099}) {
    cases.push_back(DropoutCase(1, elements));
  }
  return cases;
}

bool IsExact(const std::string& kind) {
  return kind == "relu" || kind == "dropout" || kind == "max_pool" || kind == "embedding";
}

void ExpectTheSame(const OpCase& c, const OpRunner& aligned, const Offsets& offsets) {
  OpRunner moved(c, kUnalignedSeed, BackendUnderTest(), offsets);
  moved.Prepare(true);
  moved.Forward(true);
  moved.Backward();
  const auto where = testing::Message() << c << " from " << offsets.x << " and " << offsets.y;
  const auto expect = [&](const std::vector<float>& a, const std::vector<float>& b) {
    if (IsExact(c.kind)) {
      EXPECT_EQ(a, b) << where;
    } else {
      EXPECT_LE(NormalisedError(a, ToDouble(b)), kUnalignedNmseMax) << where;
    }
  };
  expect(moved.y, aligned.y);
  expect(moved.dx, aligned.dx);
  for (size_t i = 0; i < moved.grads.size(); ++i) {
    expect(moved.grads[i], aligned.grads[i]);
  }
}

TEST(UnalignedTest, OpsDoTheSameAtAnyAddress) {
  if (BackendUnderTest()->is_host_memory()) {
    GTEST_SKIP() << "oneDNN's own loops differ by alignment";
  }
  for (const OpCase& c : UnalignedCases()) {
    OpRunner aligned(c, kUnalignedSeed, BackendUnderTest(), {.params = 0, .grads = 0});
    aligned.Prepare(true);
    aligned.Forward(true);
    aligned.Backward();
    for (const Offsets& offsets :
         {Offsets{}, {1, 1}, {2, 2}, {3, 3, 0, 0}, {0, 1, 0, 0}, {3, 0}, {1, 2}}) {
      ExpectTheSame(c, aligned, offsets);
    }
  }
}

}  // namespace
}  // namespace ps::kernels::test
