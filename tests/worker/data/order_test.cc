#include "worker/data/order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ps::worker {
namespace {

std::vector<uint64_t> All(const EpochOrder& order) {
  std::vector<uint64_t> samples;
  for (uint64_t i = 0; i < order.count(); ++i) {
    samples.push_back(order.SampleAt(i));
  }
  return samples;
}

TEST(EpochOrderTest, IsAPermutation) {
  for (const uint64_t n : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 255U, 256U, 257U, 60000U}) {
    std::vector<bool> seen(n);
    for (const uint64_t sample : All(EpochOrder(7, 3, n))) {
      ASSERT_LT(sample, n);
      EXPECT_FALSE(seen[sample]) << sample << " twice in " << n;
      seen[sample] = true;
    }
  }
}

TEST(EpochOrderTest, IsAFunctionOfSeedAndEpoch) {
  const std::vector<uint64_t> order = All(EpochOrder(1, 0, 1000));
  EXPECT_EQ(All(EpochOrder(1, 0, 1000)), order);
  EXPECT_NE(All(EpochOrder(1, 1, 1000)), order);
  EXPECT_NE(All(EpochOrder(2, 0, 1000)), order);
}

TEST(EpochOrderTest, IsFixedForEver) {
  // A worker of another build must not draw other samples: these values are part of the protocol.
  const EpochOrder order(1, 0, 60000);
  const std::vector<uint64_t> first = {
      order.SampleAt(0), order.SampleAt(1), order.SampleAt(2), order.SampleAt(59999)};
  EXPECT_EQ(first, (std::vector<uint64_t>{59269, 1237, 8026, 40844}));
}

TEST(EpochOrderTest, SpreadsTheSamples) {
  // The mean of each tenth of the epoch is that of all samples within five standard errors.
  constexpr uint64_t kCount = 60000;
  constexpr uint64_t kPart = kCount / 10;
  const EpochOrder order(3, 5, kCount);
  const double error = kCount / std::sqrt(12.0 * kPart);
  for (uint64_t part = 0; part < 10; ++part) {
    double sum = 0;
    for (uint64_t i = part * kPart; i < (part + 1) * kPart; ++i) {
      sum += static_cast<double>(order.SampleAt(i));
    }
    EXPECT_NEAR(sum / kPart, kCount / 2.0, 5 * error);
  }
}

TEST(EpochOrderTest, NeighboursAreFarApart) {
  const EpochOrder order(3, 5, 60000);
  int near = 0;
  for (uint64_t i = 1; i < 60000; ++i) {
    const auto distance = static_cast<int64_t>(order.SampleAt(i) - order.SampleAt(i - 1));
    near += distance >= -10 && distance <= 10 ? 1 : 0;
  }
  EXPECT_LT(near, 60);  // 20 expected
}

}  // namespace
}  // namespace ps::worker
