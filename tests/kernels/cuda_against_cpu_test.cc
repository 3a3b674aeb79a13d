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

void ExpectMaskOfTheCpu(Backend* cpu, int64_t n, int64_t elements, float rate) {
  SCOPED_TRACE(testing::Message() << n << " x " << elements << ", rate " << rate);
  OpCase c;
  c.kind = "dropout";
  c.n = n;
  c.in_elements = c.out_elements = elements;
  c.spec = DropoutOptions{.elements = elements, .rate = rate, .seed = 7, .layer = 2};
  OpRunner here(c, kAgainstSeed);
  OpRunner there(c, kAgainstSeed, cpu);
  for (OpRunner* runner : {&here, &there}) {
    runner->Prepare(true);
    runner->Forward(true);
    runner->Backward();
  }
  EXPECT_EQ(here.y, there.y);
  EXPECT_EQ(here.dx, there.dx);
  here.RunInPlace();
  EXPECT_EQ(here.y, there.y);
  here.Forward(false);
  EXPECT_EQ(here.y, here.x);
}

TEST(CudaDropoutTest, TheMaskIsThatOfTheCpu) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend();
  for (const float rate : {0.0F, 0.3F, 0.9F}) {
    for (const int64_t elements : {1, 31, 32, 33, 347}) {
      ExpectMaskOfTheCpu(cpu.get(), 0, elements, rate);
      ExpectMaskOfTheCpu(cpu.get(), 3, elements, rate);
    }
  }
}

}  // namespace
}  // namespace ps::kernels::test
