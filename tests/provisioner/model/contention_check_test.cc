#include "tests/provisioner/model/contention_check.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ps::provisioner {
namespace {

// One test, since the fits take seconds.
TEST(ContentionCheckTest, OthersComeOutAsKnownAndOursReachesItsTarget) {
  const Result<std::vector<ScalingSeries>> series = LoadScalingSeries("tests/data/ps_scaling");
  ASSERT_TRUE(series.ok()) << series.status();
  EXPECT_EQ(series->size(), 16U);
  const std::vector<ContentionRow> rows = CheckContention(*series);
  const auto row = [&](const std::string& part) {
    const auto found = std::ranges::find_if(
        rows, [&](const ContentionRow& one) { return one.model.find(part) != std::string::npos; });
    EXPECT_NE(found, rows.end()) << part;
    return found == rows.end() ? ContentionRow() : *found;
  };

  // What others get on the same data; a difference means that the protocol has changed.
  EXPECT_NEAR(row("linear").mean, 0.405, 0.01);
  EXPECT_NEAR(row("exponential").mean, 0.105, 0.005);
  EXPECT_NEAR(row("exponential").median, 0.045, 0.005);
  EXPECT_NEAR(row("near-deterministic").mean, 0.067, 0.004);
  EXPECT_NEAR(row("near-deterministic").median, 0.030, 0.003);
  EXPECT_NEAR(row("near-deterministic").p90, 0.172, 0.01);

  const ContentionRow ours = row("mean of 16 fits");
  EXPECT_LE(ours.mean, 0.04);
  EXPECT_LE(ours.median, 0.025);
  EXPECT_LE(ours.p90, 0.12);
  for (const std::string other : {"linear", "spotDNN", "exponential", "near-deterministic"}) {
    EXPECT_LT(ours.mean, row(other).mean) << other;
    EXPECT_LT(ours.median, row(other).median) << other;
    EXPECT_LT(ours.p90, row(other).p90) << other;
  }
}

}  // namespace
}  // namespace ps::provisioner
