#include "psctl/remote/head_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "provisioner/rental/rent_settings.h"
#include "tests/provisioner/rental/scripted_provider.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;

class HeadCheckTest : public ::testing::Test {
 protected:
  HeadCheckTest() {
    config_.launch.launcher = proto::LauncherKind::kEc2;
    config_.launch.rent.types = {"worker"};
    config_.launch.rent.zones = {"zone"};
    config_.launch.rent.head.type = "host";
    provider_.prices.prices = {{{"host", "zone", false}, 0.5, 0}};
  }

  Result<double> Look() {
    run::Console console;
    console.err = [this](std::string_view text) { said_ += text; };
    return LookAtProvider(
        config_, &provider_, provisioner::HeadOptionsOf(config_, "check", "#!/bin/sh\n"), console);
  }

  proto::JobConfig config_;
  provisioner::ScriptedProvider provider_;
  std::string said_;
};

TEST_F(HeadCheckTest, ThePriceIsSaidAndHeldAgainstTheBudget) {
  config_.budget.usd_per_hour = 1;
  EXPECT_EQ(*Look(), 0.5);
  EXPECT_THAT(said_, HasSubstr("$0.50 an hour until it is given back"));
  config_.budget.usd_per_hour = 0.5;
  EXPECT_THAT(Look().status().message(), HasSubstr("the head costs $0.50 an hour"));
}

/// It was rented all the same, for whatever it costs.
TEST_F(HeadCheckTest, AHeadWhosePriceNobodyTellsIsNotRentedWithABudget) {
  provider_.prices.prices.clear();
  provider_.prices.end = {provisioner::CallFault::kThrottled, "too many calls", {}};
  EXPECT_EQ(*Look(), 0) << "without a budget";
  EXPECT_THAT(said_, HasSubstr("whose price is not known"));
  config_.budget.usd = 1;
  EXPECT_THAT(Look().status().message(), HasSubstr("the provider tells no price of a head host"));
  config_.budget.usd = 0;
  config_.budget.usd_per_hour = 1;
  EXPECT_EQ(Look().status().code(), StatusCode::kInvalidArgument);
  config_.launch.rent.head.usd_per_hour = 0.25;
  EXPECT_EQ(*Look(), 0.25) << "the job says it";
}

}  // namespace
}  // namespace ps::psctl
