#include "kernels/cpu/vector.h"

#include <gtest/gtest.h>

#include <cmath>
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

}  // namespace
}  // namespace ps::kernels
