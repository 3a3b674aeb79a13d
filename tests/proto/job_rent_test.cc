// What a job says of rented machines.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/proto/small_job.h"

namespace ps::tests {
namespace {

using testing::HasSubstr;

const char* const kRent =
    R"({"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"], "types": ["c7i.xlarge"],)"
    R"( "image": "ami-1"})";

std::string Launch(const std::string& rent) {
  return R"({"launcher": "ec2", "rent": )" + rent + "}";
}

std::vector<proto::ConfigOverride> Rented(std::vector<proto::ConfigOverride> more = {}) {
  std::vector<proto::ConfigOverride> all = {{"launch", Launch(kRent)}, {"run.listen", "0.0.0.0"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(JobRentTest, AJobThatRentsNeedsWhatHasNoDefault) {
  EXPECT_EQ(ErrorOf(kSmall, Rented()), "no error");
  const std::vector<std::pair<std::string, std::string>> fields = {
      {"region", R"("us-east-1")"},
      {"zones", R"(["us-east-1a", "us-east-1b"])"},
      {"types", R"(["c7i.xlarge"])"},
      {"image", R"("ami-1")"}};
  for (const auto& [missing, unused] : fields) {
    std::string rent = R"("user": "me")";
    for (const auto& [field, value] : fields) {
      rent += field == missing ? "" : ", \"" + field + "\": " + value;
    }
    EXPECT_THAT(
        ErrorOf(kSmall, {{"launch", Launch("{" + rent + "}")}, {"run.listen", "0.0.0.0"}}),
        HasSubstr("launch.launcher ec2 needs launch.rent." + missing + ", for example"));
  }
  EXPECT_THAT(
      ErrorOf(
          kSmall, {{"launch", R"({"launcher": "gce", "rent": {}})"}, {"run.listen", "0.0.0.0"}}),
      HasSubstr("launch.launcher gce needs launch.rent.project"));
}

TEST(JobRentTest, FieldsOfOneLauncherAreNoneOfAnother) {
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({{"launch.rent.project", "p"}})),
      HasSubstr("launch.rent.project is for gce; allowed: leave it out"));
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({{"launch.launcher", "gce"}})),
      HasSubstr("launch.rent.region is for ec2; allowed: leave it out"));
  EXPECT_THAT(
      ErrorOf(kSmall, {{"launch.rent.image", "ami-1"}}),
      HasSubstr("launch.rent is for machines that are rented"));
  EXPECT_THAT(
      ErrorOf(kSmall, {{"budget.usd", "20"}}),
      HasSubstr("budget limits what rented machines cost, and nothing is rented"));
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({{"launch.prefix", "nice"}})),
      HasSubstr("launch.prefix is for the launcher local"));
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({{"servers.launcher", "ec2"}})),
      HasSubstr("takes the parameters with it; allowed: local"));
}

TEST(JobRentTest, GroupsNameTypesAndZonesThatAreRented) {
  EXPECT_EQ(
      ErrorOf(
          kSmall,
          Rented({{"workers[0].type", "c7i.xlarge"}, {"workers[0].zones", R"(["us-east-1b"])"}})),
      "no error");
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({{"workers[0].type", "p3.2xlarge"}})),
      HasSubstr(
          "workers[0].type is \"p3.2xlarge\"; allowed: one of launch.rent.types, c7i.xlarge"));
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({{"workers[0].usd_per_hour", "1"}})),
      HasSubstr("workers[0].usd_per_hour is for machines of your own"));
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({{"workers[0].zones", R"(["us-west-1a"])"}})),
      HasSubstr("allowed: us-east-1a, us-east-1b"));
}

TEST(JobRentTest, APoolIsLeftForOneThatCostsLess) {
  EXPECT_EQ(ErrorOf(kSmall, Rented({{"launch.rent.leave_above", "1.5"}})), "no error");
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({{"launch.rent.leave_above", "0.5"}})),
      HasSubstr("launch.rent.leave_above is 0.5: times the price of the cheapest other pool"));
}

TEST(JobRentTest, PricesOfTrafficNeedToKnowWhereBothEndsAre) {
  const proto::ConfigOverride price = {"traffic.zone_usd_per_gb", "0.02"};
  EXPECT_EQ(ErrorOf(kSmall, Rented({price, {"traffic.server_zone", "us-east-1a"}})), "no error");
  EXPECT_EQ(ErrorOf(kSmall, Rented({price, {"traffic.server_zone", "outside"}})), "no error");
  EXPECT_EQ(ErrorOf(kSmall, Rented({price, {"launch.rent.head.type", "m7i.large"}})), "no error")
      << "psctl knows where the head is";
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({price})), HasSubstr("nobody says in which zone the servers are"));
  EXPECT_THAT(
      ErrorOf(kSmall, {price, {"traffic.server_zone", "us-east-1a"}}),
      HasSubstr("nobody says in which zones the workers are; allowed: leave it out"));
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({{"traffic.egress_usd_per_gb", "-1"}})),
      HasSubstr("traffic.egress_usd_per_gb is -1"));
}

TEST(JobRentTest, MachinesHaveToReachTheCoordinatorAndTimeToBoot) {
  EXPECT_THAT(
      ErrorOf(kSmall, {{"launch", Launch(kRent)}}),
      HasSubstr("rented machines can't reach run.listen \"127.0.0.1\""));
  EXPECT_THAT(
      ErrorOf(kSmall, Rented({{"launch.rent.watch_min", "2"}})),
      HasSubstr("boot_s + idle_s, 660 s; allowed: 11 or more"));
  const auto join_s = [](const std::vector<proto::ConfigOverride>& settings) {
    return proto::ParseJobConfig(kSmall, "job.json", settings)->fleet.join_timeout_s;
  };
  EXPECT_EQ(join_s({}), 60);
  EXPECT_EQ(join_s(Rented()), 720);
  EXPECT_EQ(join_s(Rented({{"launch.rent.boot_s", "100"}})), 220);
  EXPECT_EQ(join_s(Rented({{"fleet.join_timeout_s", "50"}})), 50);
}

}  // namespace
}  // namespace ps::tests
