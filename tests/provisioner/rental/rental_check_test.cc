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
    return CheckRental(&provider, request);
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

TEST_F(RentalCheckTest, WhatAllMachinesNeedStopsAll) {
  EXPECT_THAT(Error({Line("image ami-9", CallFault::kRefused)}), HasSubstr("image ami-9"));
  EXPECT_EQ(Said({Line("image ami-9", CallFault::kThrottled)}), "") << "not told";
}

}  // namespace
}  // namespace ps::provisioner
