#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <variant>
#include <vector>

#include "tests/kernels/on_device.h"
#include "tests/kernels/op_runner.h"

// Layer norm of a sum, and with another part of the input's gradient, where a backend has that.

namespace ps::kernels::test {
namespace {

constexpr uint64_t kLayerNormSeed = 23;

/// What went in and what came out.
struct Norm {
  std::vector<float> y;
  std::vector<float> sum;
  std::vector<float> dx;
  std::vector<float> dgamma;
  std::vector<float> dbeta;
};

std::vector<float> SumOfBoth(std::vector<float> a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] += b[i];
  }
  return a;
}

/// A pass forward and backward. Without a side the op gets the sum as its x; without a dx_side the
/// host adds that. `begin`: of all vectors, in floats.
Norm RunNorm(Stream* stream, const OpCase& c, bool is_fused, size_t begin) {
  const float nothing = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = NormalValues(c.n * c.in_elements, kLayerNormSeed);
  const std::vector<float> side = NormalValues(c.n * c.in_elements, kLayerNormSeed + 1);
  const std::vector<float> dx_side = NormalValues(c.n * c.in_elements, kLayerNormSeed + 2);
  const OnDevice<float> device_x(stream, is_fused ? x : SumOfBoth(x, side), begin);
  const OnDevice<float> device_side(stream, side, begin);
  const OnDevice<float> sum(stream, std::vector<float>(x.size(), nothing), begin);
  const OnDevice<float> y(stream, std::vector<float>(x.size(), nothing), begin);
  const OnDevice<float> dy(stream, NormalValues(c.n * c.in_elements, kLayerNormSeed + 3), begin);
  const OnDevice<float> device_dx_side(stream, dx_side, begin);
  const OnDevice<float> dx(stream, std::vector<float>(x.size(), nothing), begin);
  const OnDevice<float> gamma(stream, NormalValues(c.in_elements, kLayerNormSeed + 4), begin);
  const OnDevice<float> beta(stream, NormalValues(c.in_elements, kLayerNormSeed + 5), begin);
  const std::vector<float> unknown(static_cast<size_t>(c.in_elements), nothing);
  const OnDevice<float> dgamma(stream, unknown, begin);
  const OnDevice<float> dbeta(stream, unknown, begin);
  const std::unique_ptr<Op> op = stream->MakeOp(c.spec).value();
  EXPECT_TRUE(op->Prepare(c.n, true).ok());
  const std::span<const float> params[] = {
      {gamma.data(), unknown.size()}, {beta.data(), unknown.size()}};
  const std::span<float> grads[] = {
      {dgamma.data(), unknown.size()}, {dbeta.data(), unknown.size()}};
  op->Forward(
      {.n = c.n,
       .x = device_x.data(),
       .y = y.data(),
       .side = is_fused ? device_side.data() : nullptr,
       .sum = is_fused ? sum.data() : nullptr,
       .params = params,
       .training = true});
  op->Backward(
      {.n = c.n,
       .x = is_fused ? sum.data() : device_x.data(),
       .dy = dy.data(),
       .dx = dx.data(),
       .dx_side = is_fused ? device_dx_side.data() : nullptr,
       .params = params,
       .grads = grads});
  return {
      y.Values(),
      is_fused ? sum.Values() : device_x.Values(),
      is_fused ? dx.Values() : SumOfBoth(dx.Values(), dx_side),
      dgamma.Values(),
      dbeta.Values()};
}

TEST(LayerNormTest, SumsOnTheWayHaveTheBitsOfSumsBeforeAndBehind) {
  const auto stream = BackendUnderTest()->MakeStream().value();
  int count = 0;
  for (const OpCase& c : OpCasesOf("layer_norm")) {
    const OpTraits traits = stream->MakeOp(c.spec).value()->traits();
    ASSERT_EQ(traits.sums_input, !BackendUnderTest()->is_host_memory());
    ASSERT_EQ(traits.adds_to_dx, !BackendUnderTest()->is_host_memory());
    for (const size_t begin : {0U, 1U}) {
      if (traits.sums_input) {
        const Norm apart = RunNorm(stream.get(), c, false, begin);
        const Norm fused = RunNorm(stream.get(), c, true, begin);
        EXPECT_EQ(fused.y, apart.y) << c;
        EXPECT_EQ(fused.sum, apart.sum) << c;
        EXPECT_EQ(fused.dx, apart.dx) << c;
        EXPECT_EQ(fused.dgamma, apart.dgamma) << c;
        EXPECT_EQ(fused.dbeta, apart.dbeta) << c;
        ++count;
      }
    }
  }
  EXPECT_TRUE(BackendUnderTest()->is_host_memory() || count > 20);
}

}  // namespace
}  // namespace ps::kernels::test
