#include "kernels/cuda/device/divide.cuh"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "ps/base/random.h"

namespace ps::kernels {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

std::vector<int64_t> Numbers() {
  std::vector<int64_t> numbers = {0, 1, 2, 3, 4, 5, 6, 7, kMost - 2, kMost - 1, kMost};
  for (int shift = 3; shift < 31; ++shift) {
    for (const int64_t around : {-1, 0, 1}) {
      numbers.push_back((int64_t{1} << shift) + around);
    }
  }
  Random random(3);
  for (int i = 0; i < 200; ++i) {
    numbers.push_back(static_cast<int64_t>(random.Below(uint64_t{1} << (1 + i % 31))));
  }
  return numbers;
}

TEST(DivideTest, QuotientAndRestAreThoseOfADivision) {
  for (const int64_t divisor : Numbers()) {
    if (divisor == 0) {
      continue;
    }
    const Divisor32 narrow(divisor);
    const Divisor64 wide(divisor);
    const auto expect = [&](int64_t i) {
      const auto [quotient, rest] = narrow.Divide(static_cast<uint32_t>(i));
      ASSERT_EQ(quotient, i / divisor) << i << " by " << divisor;
      ASSERT_EQ(rest, i % divisor) << i << " by " << divisor;
      ASSERT_EQ(wide.Divide(i).quotient, i / divisor);
      ASSERT_EQ(wide.Divide(i).rest, i % divisor);
    };
    for (const int64_t i : Numbers()) {
      expect(i);
    }
    const int64_t last = kMost / divisor * divisor;  // where a quotient that is off shows
    for (const int64_t i : {last - 1, last, kMost}) {
      expect(i);
    }
  }
}

TEST(DivideTest, LargerNumbersAreDividedIn64Bits) {
  const auto is_narrow = []<typename Divisor>() { return std::is_same_v<Divisor, Divisor32>; };
  EXPECT_TRUE(WithDivisor(0, is_narrow));
  EXPECT_TRUE(WithDivisor(kMost, is_narrow));
  EXPECT_FALSE(WithDivisor(kMost + 1, is_narrow));
  const auto [quotient, rest] = Divisor64(1000003).Divide((int64_t{1} << 50) + 7);
  EXPECT_EQ(quotient, ((int64_t{1} << 50) + 7) / 1000003);
  EXPECT_EQ(rest, ((int64_t{1} << 50) + 7) % 1000003);
}

}  // namespace
}  // namespace ps::kernels
