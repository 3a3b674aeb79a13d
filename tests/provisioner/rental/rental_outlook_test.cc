#include "provisioner/rental/rental_outlook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "provisioner/rental/rent_settings.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// Three workers of any type, and one of the small one.
class RentalOutlookTest : public testing::Test {
 protected:
  RentalOutlookTest() {
    config_.launch.launcher = proto::LauncherKind::kEc2;
    config_.launch.rent.types = {"small", "large"};
    config_.launch.rent.zones = {"zone-1"};
    config_.workers.resize(2);
    config_.workers[0].count = 3;
    config_.workers[1].count = 1;
    config_.workers[1].type = "small";
  }

  std::vector<std::pair<std::string, std::string>> Lines() const {
    return DescribeRent(config_, prices_);
  }

  proto::JobConfig config_;
  std::vector<PoolPrice> prices_ = {
      {{"small", "zone-1", true}, 0.5, 0}, {{"large", "zone-1", true}, 1, 0}};
};

TEST_F(RentalOutlookTest, TheDearestThatTheMachinesCanBeIsToldAndThatNothingLimitsIt) {
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          Pair("rent", "4 spot machines of EC2, $3.50 an hour at most, at the prices of now"),
          Pair("budget", "none: the run costs until it ends (budget.usd)")));
}

TEST_F(RentalOutlookTest, HowLongTheBudgetLastsAndWhatTheCapAllowsAreTold) {
  config_.budget.usd = 21;
  EXPECT_THAT(Lines(), testing::Contains(Pair("budget", "$21.00 last 6.0 h at $3.50 an hour")));
  config_.budget.usd_per_hour = 2;
  EXPECT_THAT(
      Lines(),
      testing::Contains(Pair(
          "budget",
          "$21.00 last 10.5 h at $2.00 an hour; $2.00 an hour pay for 2 of them at a time")));
  config_.budget.usd = 0;
  config_.budget.usd_per_hour = 4;
  EXPECT_THAT(Lines(), testing::Contains(Pair("budget", "$4.00 an hour pay for all at a time")));
}

/// On a head, whose job has no type of one and what it costs.
TEST_F(RentalOutlookTest, TheBudgetIsForThisMachineTooWhereItIsAHead) {
  config_.launch.rent.head.usd_per_hour = 0.5;
  config_.budget.usd = 20;
  config_.budget.usd_per_hour = 2.5;
  EXPECT_THAT(
      Lines(),
      testing::Contains(Pair(
          "budget",
          "$20.00 last 8.0 h at $2.50 an hour; $2.50 an hour pay for 2 of them at a time")));
  EXPECT_EQ(RentalOptionsOf(config_, "run", "").budget.usd_per_hour, 2);
  config_.budget.usd_per_hour = 0;
  EXPECT_THAT(Lines(), testing::Contains(Pair("budget", "$20.00 last 5.0 h at $4.00 an hour")));
  config_.launch.rent.head.type = "stable";
  EXPECT_THAT(Lines(), testing::Contains(Pair("budget", "$20.00 last 5.7 h at $3.50 an hour")))
      << "of a job that may rent one: this machine costs nobody anything";
}

TEST_F(RentalOutlookTest, WithoutPricesTheJobsOwnIsTaken) {
  prices_.clear();
  config_.budget.usd = 20;
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          Pair(
              "rent",
              "4 spot machines of EC2, whose price is not known (launch.rent.usd_per_hour says "
              "it)"),
          Pair("budget", "$20.00")));
  config_.launch.launcher = proto::LauncherKind::kGce;
  config_.launch.rent.usd_per_hour = 0.25;
  config_.launch.rent.spot = false;
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          Pair("rent", "4 machines of Compute Engine, $1.00 an hour at most, at the prices of now"),
          Pair("budget", "$20.00 last 20.0 h at $1.00 an hour")));
}

}  // namespace
}  // namespace ps::provisioner
