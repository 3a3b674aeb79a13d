#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "tests/kernels/op_runner.h"

namespace ps::kernels::test {
namespace {

constexpr uint64_t kAgainstSeed = 23;

/// By kind of op, on a backend that is not the CPU.
class CudaAgainstCpu : public testing::TestWithParam<std::string> {};

double Difference(std::span<const float> actual, std::span<const float> expected) {
  return NormalisedError(actual, ToDouble(expected));
}

TEST_P(CudaAgainstCpu, BothPassesAgreeWithinTheBound) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend();
  for (const OpCase& c : OpCasesOf(GetParam())) {
    OpRunner here(c, kAgainstSeed);
    OpRunner there(c, kAgainstSeed, cpu.get());
    for (OpRunner* runner : {&here, &there}) {
      runner->Prepare(true);
      runner->Forward(true);
      runner->Backward();
    }
    // Both are as far from the truth as the table allows.
    const double bound = std::max(4 * c.nmse_max, c.gradient_nmse_max);
    EXPECT_LE(Difference(here.y, there.y), 4 * c.nmse_max) << c << " y";
    EXPECT_LE(Difference(here.dx, there.dx), bound) << c << " dx";
    for (size_t i = 0; i < here.grads.size(); ++i) {
      EXPECT_LE(Difference(here.grads[i], there.grads[i]), bound) << c << " parameter " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllOps, CudaAgainstCpu, testing::ValuesIn(AllOpKinds()), [](const auto& kind) {
      return kind.param;
    });

TEST(CudaDropoutTest, TheMaskIsThatOfTheCpu) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend();
  for (const float rate : {0.0F, 0.3F, 0.9F}) {
    OpCase c;
    c.kind = "dropout";
    c.n = 3;
    c.in_elements = c.out_elements = 347;
    c.spec = DropoutOptions{.elements = 347, .rate = rate, .seed = 7, .layer = 2};
    OpRunner here(c, kAgainstSeed);
    OpRunner there(c, kAgainstSeed, cpu.get());
    for (OpRunner* runner : {&here, &there}) {
      runner->Prepare(true);
      runner->Forward(true);
      runner->Backward();
    }
    EXPECT_EQ(here.y, there.y) << rate;
    EXPECT_EQ(here.dx, there.dx) << rate;
    here.RunInPlace();
    EXPECT_EQ(here.y, there.y) << rate;
    here.Forward(false);
    EXPECT_EQ(here.y, here.x) << rate;
  }
}

}  // namespace
}  // namespace ps::kernels::test
