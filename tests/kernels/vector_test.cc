#include "kernels/cpu/vector.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace ps::kernels {
namespace {

TEST(VectorTest, AddMayWriteToEitherInput) {
  std::vector<float> a = {1, 2, 3};
  std::vector<float> b = {10, 20, 30};
  Add(a.data(), b.data(), a.data(), 3);
  EXPECT_EQ(a, (std::vector<float>{11, 22, 33}));
  Add(a.data(), b.data(), b.data(), 3);
  EXPECT_EQ(b, (std::vector<float>{21, 42, 63}));
}

TEST(VectorTest, SquaredNormCountsEveryElement) {
  for (const size_t n : {0U, 1U, 15U, 16U, 17U, 31U, 1009U}) {
    const std::vector<float> x(n, 2.0F);
    EXPECT_EQ(SquaredNorm(x), 4.0 * static_cast<double>(n));
  }
}

TEST(VectorTest, SquaredNormKeepsNanAndDoesNotOverflow) {
  EXPECT_TRUE(std::isnan(SquaredNorm(std::vector<float>{1, std::nanf(""), 2})));
  EXPECT_TRUE(std::isfinite(SquaredNorm(std::vector<float>(100, 3e38F))));
}

TEST(VectorTest, ScaleMultiplies) {
  std::vector<float> x = {1, -2, 0};
  Scale(x, 0.5F);
  EXPECT_EQ(x, (std::vector<float>{0.5F, -1, 0}));
}

TEST(VectorTest, RoundingToBf16IsToTheNearestWithTiesToEven) {
  const float step = std::ldexp(1.0F, -7);  // between neighbours from 1 on
  std::vector<float> x = {
      0, -1, 1 + step, 1 + 0.49F * step, 1 + 0.5F * step, 1 + 1.5F * step, 3.4e38F, std::nanf("")};
  std::vector<uint16_t> packed(x.size());
  PackBf16(x.data(), packed.data(), static_cast<int64_t>(x.size()));
  RoundToBf16(x.data(), x.data(), static_cast<int64_t>(x.size()));
  std::vector<float> unpacked(x.size());
  UnpackBf16(packed.data(), unpacked.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(std::memcmp(unpacked.data(), x.data(), x.size() * sizeof(float)), 0);
  const std::vector<float> expected = {0, -1, 1 + step, 1, 1, 1 + 2 * step, INFINITY};
  EXPECT_EQ(std::vector<float>(x.begin(), x.end() - 1), expected);
  EXPECT_TRUE(std::isnan(x.back()));
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(x[i]), static_cast<uint32_t>(packed[i]) << 16U) << i;
  }
}

}  // namespace
}  // namespace ps::kernels
