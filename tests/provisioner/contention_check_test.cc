#include "tests/provisioner/contention_check.h"

#include <gtest/gtest.h>

namespace ps::provisioner {
namespace {

class ContentionCheckTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Result<std::vector<ScalingSeries>> series = LoadScalingSeries("tests/data/ps_scaling");
    ASSERT_TRUE(series.ok()) << series.status();
    series_count_ = series->size();
    rows_ = CheckContention(*series);
  }

  static const ContentionRow& Row(const std::string& part) {
    for (const ContentionRow& row : rows_) {
      if (row.model.find(part) != std::string::npos) {
        return row;
      }
    }
    ADD_FAILURE() << "no row " << part;
    return rows_.front();
  }

  static inline std::vector<ContentionRow> rows_;
  static inline size_t series_count_ = 0;
};

TEST_F(ContentionCheckTest, TheDataHoldSixteenSeries) {
  EXPECT_EQ(series_count_, 16U);
}

// What others get on the same data; a difference means that the protocol has changed.
TEST_F(ContentionCheckTest, KnownModelsComeOutAsKnown) {
  EXPECT_NEAR(Row("linear").mean, 0.405, 0.01);
  EXPECT_NEAR(Row("exponential").mean, 0.105, 0.005);
  EXPECT_NEAR(Row("exponential").median, 0.045, 0.005);
  EXPECT_NEAR(Row("near-deterministic").mean, 0.067, 0.004);
  EXPECT_NEAR(Row("near-deterministic").median, 0.030, 0.003);
  EXPECT_NEAR(Row("near-deterministic").p90, 0.172, 0.01);
}

TEST_F(ContentionCheckTest, OurQueueExtrapolatesWithinFourPercent) {
  const ContentionRow& ours = Row("servers' times shared");
  EXPECT_LE(ours.mean, 0.04);
  EXPECT_LE(ours.median, 0.028);
  EXPECT_LE(ours.p90, 0.12);
}

TEST_F(ContentionCheckTest, OurQueueIsBetterThanEveryOther) {
  const ContentionRow& ours = Row("servers' times shared");
  for (const std::string other : {"linear", "spotDNN", "exponential", "near-deterministic"}) {
    EXPECT_LT(ours.mean, Row(other).mean) << other;
    EXPECT_LT(ours.median, Row(other).median) << other;
    EXPECT_LT(ours.p90, Row(other).p90) << other;
  }
}

}  // namespace
}  // namespace ps::provisioner
