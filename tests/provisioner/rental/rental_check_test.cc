#include "provisioner/rental/rental_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/provisioner/rental/scripted_provider.h"

namespace ps::provisioner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Pool kGpu = {"g4dn.xlarge", "zone-1", true};
const Pool kOtherGpu = {"g4dn.xlarge", "zone-2", true};
const Pool kCpu = {"m5.large", "zone-1", true};

CheckLine Line(const std::string& what, CallFault fault, std::vector<Pool> pools = {}) {
  return {.what = what, .end = {fault, "why of " + what, {}}, .finding = {}, .pools = pools};
}

class RentalCheckTest : public testing::Test {
 protected:
  Result<std::string> Check(std::vector<CheckLine> lines) {
    lines.insert(lines.begin(), Line("credentials", CallFault::kNone));
    ScriptedProvider provider;
    provider.lines = std::move(lines);
    RentRequest request;
    request.pools = {kGpu, kOtherGpu, kCpu};
    return CheckRental(&provider, request, demands_);
  }

  std::string Error(std::vector<CheckLine> lines) {
    const Result<std::string> checked = Check(std::move(lines));
    EXPECT_FALSE(checked.ok());
    EXPECT_EQ(checked.status().code(), StatusCode::kInvalidArgument);
    return std::string(checked.status().message());
  }

  /// What is said of a run that begins all the same.
  std::string Said(std::vector<CheckLine> lines) {
    const Result<std::string> checked = Check(std::move(lines));
    EXPECT_TRUE(checked.ok()) << checked.status();
    return checked.ok() ? *checked : "";
  }

  std::vector<MachineDemand> demands_;
};

TEST_F(RentalCheckTest, WhenEachPoolHasAReasonNothingCanBeRented) {
  EXPECT_THAT(
      Error(
          {Line("one", CallFault::kRefused, {kGpu}),
           Line("two", CallFault::kRefused, {kOtherGpu}),
           Line("quota of Standard", CallFault::kQuota, {kCpu})}),
      AllOf(
          HasSubstr("no machine can be rented: one: why of one; two: why of two"),
          HasSubstr("quota of Standard: why of quota of Standard")));
}

TEST_F(RentalCheckTest, OneBadPoolIsSaidAndTheOthersAreRented) {
  EXPECT_EQ(Said({Line("one", CallFault::kRefused, {kGpu})}), "one: why of one");
  EXPECT_EQ(Said({}), "");
}

TEST_F(RentalCheckTest, TheQuotaOfOneFamilyLeavesTheTypesOfOthers) {
  EXPECT_EQ(
      Said({Line("quota of G", CallFault::kQuota, {kGpu, kOtherGpu})}),
      "quota of G: why of quota of G");
  EXPECT_THAT(
      Error(
          {Line("quota of G", CallFault::kQuota, {kGpu, kOtherGpu}),
           Line("zone-1", CallFault::kRefused, {kCpu})}),
      HasSubstr("quota of G"));
}

TEST_F(RentalCheckTest, APermissionThatIsMissingStopsAllAndOneToLookStopsNothing) {
  EXPECT_THAT(
      Error({Line("permission ec2:CreateFleet", CallFault::kDenied)}),
      HasSubstr("no machine can be rented: permission ec2:CreateFleet"));
  EXPECT_EQ(Said({Line("quotas", CallFault::kDenied)}), "");
}

TEST_F(RentalCheckTest, AQuotaIsHeldAgainstAllMachinesOfTheJob) {
  const auto quota = [](const std::string& what, uint64_t room, std::vector<Pool> pools) {
    CheckLine line = Line(what, CallFault::kNone, std::move(pools));
    line.room = room;
    return line;
  };
  const CheckLine gpus = quota("quota of G", 2, {kGpu, kOtherGpu});
  const CheckLine cpus = quota("quota of Standard", 3, {kCpu});
  demands_ = {{{kGpu, kOtherGpu, kCpu}, 5}};
  EXPECT_EQ(Said({gpus, cpus}), "") << "some here, some there";
  demands_ = {{{kGpu, kOtherGpu, kCpu}, 6}};
  EXPECT_EQ(
      Said({gpus, cpus}),
      "quotas for 6 machines: the job wants 6 machines of g4dn.xlarge spot in zone-1 and other "
      "pools, and there is room for 5");
  EXPECT_EQ(Said({gpus}), "") << "of the other one nothing is told";
  demands_ = {{{kGpu}, 1}, {{kOtherGpu}, 2}};
  EXPECT_THAT(Said({gpus, cpus}), HasSubstr("wants 3 machines of g4dn.xlarge spot in zone-1"))
      << "each fits, and not all together";
  demands_ = {{{kCpu}, 4}, {{kGpu}, 1}};
  EXPECT_THAT(
      Said({gpus, cpus}),
      HasSubstr("wants 4 machines of m5.large spot in zone-1, and there is room for 3"));
  demands_ = {{{kGpu, kCpu}, 4}};
  EXPECT_THAT(
      Said({Line("full", CallFault::kQuota, {kGpu, kOtherGpu}), cpus}),
      AllOf(HasSubstr("full: why of full"), HasSubstr("there is room for 3")));
}

TEST_F(RentalCheckTest, AProviderThatDoesNotAnswerStopsAllBeforeAnythingBegins) {
  ScriptedProvider provider;
  provider.lines = {Line("credentials", CallFault::kUnclear)};
  RentRequest request;
  request.pools = {kGpu};
  const Result<std::string> checked = CheckRental(&provider, request, {});
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(checked.status().message()),
      AllOf(HasSubstr("why of credentials"), HasSubstr("launch.rent.region")));
}

TEST_F(RentalCheckTest, WhatAllMachinesNeedStopsAll) {
  EXPECT_THAT(Error({Line("image ami-9", CallFault::kRefused)}), HasSubstr("image ami-9"));
  EXPECT_EQ(Said({Line("image ami-9", CallFault::kThrottled)}), "") << "not told";
}

}  // namespace
}  // namespace ps::provisioner
