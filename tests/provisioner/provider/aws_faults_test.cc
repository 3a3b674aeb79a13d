#include "provisioner/provider/aws_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace ps::provisioner {
namespace {

TEST(AwsFaultsTest, CodesAreToldApartByWhatTheyAskFor) {
  const std::pair<AwsError, CallFault> cases[] = {
      {{400, "InsufficientInstanceCapacity", ""}, CallFault::kNoStock},
      {{500, "Server.InsufficientInstanceCapacity", ""}, CallFault::kNoStock},
      {{400, "InsufficientFreeAddressesInSubnet", ""}, CallFault::kNoStock},
      {{0, "UnfulfillableCapacity", ""}, CallFault::kNoStock},
      {{400, "SpotMaxPriceTooLow", ""}, CallFault::kNoStock},
      {{400, "MaxSpotInstanceCountExceeded", ""}, CallFault::kQuota},
      {{400, "VcpuLimitExceeded", ""}, CallFault::kQuota},
      {{400, "InstanceLimitExceeded", ""}, CallFault::kQuota},
      {{503, "RequestLimitExceeded", ""}, CallFault::kThrottled},
      {{400, "Throttling", ""}, CallFault::kThrottled},
      {{400, "ThrottlingException", ""}, CallFault::kThrottled},
      {{400, "Client.RequestLimitExceeded", ""}, CallFault::kThrottled},
      {{429, "", ""}, CallFault::kThrottled},
      {{403, "UnauthorizedOperation", ""}, CallFault::kDenied},
      {{400, "AccessDeniedException", ""}, CallFault::kDenied},
      {{400, "AuthFailure.ServiceLinkedRoleCreationNotPermitted", ""}, CallFault::kDenied},
      {{401, "AuthFailure", ""}, CallFault::kCredentials},
      {{403, "SignatureDoesNotMatch", ""}, CallFault::kCredentials},
      {{400, "RequestExpired", ""}, CallFault::kCredentials},
      {{403, "InvalidClientTokenId", ""}, CallFault::kCredentials},
      {{400, "UnrecognizedClientException", ""}, CallFault::kCredentials},
      {{403, "ExpiredTokenException", ""}, CallFault::kCredentials},
      {{400, "IdempotentParameterMismatch", ""}, CallFault::kMismatch},
      {{400, "IdempotentInstanceTerminated", ""}, CallFault::kMismatch},
      {{400, "InvalidAMIID.NotFound", ""}, CallFault::kRefused},
      {{400, "InvalidAMIID.Malformed", ""}, CallFault::kRefused},
      {{400, "Unsupported", ""}, CallFault::kRefused},
      {{400, "SomethingNew", ""}, CallFault::kRefused},
      {{500, "InternalError", ""}, CallFault::kUnclear},
      {{0, "Server.InternalError", ""}, CallFault::kUnclear},
      {{503, "Unavailable", ""}, CallFault::kUnclear},
      {{0, "Server.SomethingNew", ""}, CallFault::kUnclear},
      {{502, "", ""}, CallFault::kUnclear},
      {{400, "", ""}, CallFault::kUnclear},
  };
  for (const auto& [error, fault] : cases) {
    EXPECT_EQ(CallFaultName(AwsFaultOf(error)), CallFaultName(fault))
        << error.http_status << " " << error.code;
  }
}

TEST(AwsFaultsTest, TheMissingPermissionIsThatOfTheMessage) {
  AwsError error = {
      403,
      "UnauthorizedOperation",
      "User: arn:aws:iam::1:user/x is not authorized to perform: iam:PassRole on resource: y"};
  EXPECT_EQ(MissingPermission(error, "ec2:CreateFleet"), "iam:PassRole");
  error.message = "not authorized to perform: <img>";
  EXPECT_EQ(MissingPermission(error, "ec2:CreateFleet"), "ec2:CreateFleet");
  error.message = "no";
  EXPECT_EQ(MissingPermission(error, "ec2:CreateFleet"), "ec2:CreateFleet");
  error.code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";
  EXPECT_EQ(MissingPermission(error, "ec2:CreateFleet"), "iam:CreateServiceLinkedRole");
}

TEST(AwsFaultsTest, WhatNoPersonCanReadIsNotShown) {
  const AwsError error = {
      403,
      "UnauthorizedOperation",
      "You may not.\n Encoded authorization failure message: c2VjcmV0 more"};
  EXPECT_EQ(AwsErrorText(error), "UnauthorizedOperation: You may not.?");
  EXPECT_EQ(EncodedAuthorization(error), "c2VjcmV0");
  EXPECT_EQ(EncodedAuthorization({403, "x", "y"}), "");
  EXPECT_EQ(AwsErrorText({502, "", ""}), "HTTP 502 without a code");
}

TEST(AwsFaultsTest, AClockIsToldFromAKey) {
  EXPECT_TRUE(IsClockFault({400, "RequestExpired", ""}));
  EXPECT_TRUE(IsClockFault(
      {403, "SignatureDoesNotMatch", "Signature not yet current: 20260101T000000Z is still ..."}));
  EXPECT_TRUE(IsClockFault({403, "InvalidSignatureException", "Signature expired: 2026 is ..."}));
  EXPECT_FALSE(IsClockFault({403, "SignatureDoesNotMatch", "The request signature we ..."}));
  EXPECT_FALSE(IsClockFault({403, "ExpiredToken", ""}));
}

}  // namespace
}  // namespace ps::provisioner
