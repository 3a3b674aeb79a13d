// What is EC2's own: networks, disks, templates, permissions, quotas, money.

#include "provisioner/provider/ec2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "provisioner/provider/ec2_forms.h"
#include "provisioner/provider/ec2_replies.h"
#include "tests/provisioner/provider/ec2_cloud.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

class Ec2Test : public testing::Test {
 protected:
  static void TearDownTestSuite() { cloud_.reset(); }

  void SetUp() override {
    if (cloud_ == nullptr) {
      cloud_ = std::make_unique<Ec2Cloud>();
    }
    if (!cloud_->why_not().empty()) {
      GTEST_SKIP() << cloud_->why_not();
    }
    cloud_->Order(R"({"reset": true})");
    provider_ = cloud_->Open(Keys::kRight);
  }

  static RentRequest Request(const std::string& token = "run-worker-1") {
    return cloud_->Request(token);
  }

  /// The machine of that number in the book.
  static const JsonValue* Entry(const JsonValue& book, size_t index) {
    return &book.Find("machines")->children.at(index);
  }

  const CheckLine* LineOf(const std::vector<CheckLine>& lines, const std::string& what) {
    for (const CheckLine& line : lines) {
      if (line.what.find(what) != std::string::npos) {
        return &line;
      }
    }
    ADD_FAILURE() << "no line of " << what;
    return &none_;
  }

  static std::unique_ptr<Ec2Cloud> cloud_;
  std::unique_ptr<Provider> provider_;
  CheckLine none_;
};

std::unique_ptr<Ec2Cloud> Ec2Test::cloud_;

TEST_F(Ec2Test, AMachineIsWhatItsSetupSays) {
  RentRequest request = Request();
  request.setup.disk_gib = 200;
  request.setup.security_group = "sg-1, group-1";
  ASSERT_TRUE(provider_->Rent(request).end.ok());
  const JsonValue book = cloud_->Book();
  const JsonValue* const machine = Entry(book, 0);
  const std::map<std::string, std::string> wanted = {
      {"ImageId", "ami-1"},
      {"KeyName", "key-1"},
      {"IamInstanceProfile.Name", "ml"},
      {"SecurityGroupId.1", "sg-1"},
      {"SecurityGroup.1", "group-1"},
      {"BlockDeviceMapping.1.DeviceName", "/dev/sda1"},
      {"BlockDeviceMapping.1.Ebs.VolumeSize", "200"},
      {"InstanceInitiatedShutdownBehavior", "terminate"},
      {"MetadataOptions.HttpTokens", "required"},
      {"UserData", "IyEvYmluL3NoCmVjaG8gPHN0YXJ0ZWQ+ICYgw6kK"}};
  for (const auto& [name, value] : wanted) {
    const JsonValue* const found = machine->Find("setup")->Find(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->text, value);
  }
  EXPECT_EQ(machine->At("volume_tags.run")->text, "r1") << "disks that stay are found, too";
}

/// It has what somebody comes for.
TEST_F(Ec2Test, AMachineThatKeepsItsDiskStopsWhenItShutsDown) {
  RentRequest request = Request();
  request.setup.keeps_disk = true;
  ASSERT_TRUE(provider_->Rent(request).end.ok());
  const JsonValue book = cloud_->Book();
  EXPECT_EQ(Entry(book, 0)->Find("setup")->Find("InstanceInitiatedShutdownBehavior")->text, "stop");
}

TEST_F(Ec2Test, EachZoneHasItsSubnet) {
  RentRequest request = Request();
  request.setup.subnet = "subnet-a,subnet-b";
  const RentReply rent = provider_->Rent(request);
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  EXPECT_EQ(rent.machine->pool, request.pools[0]) << "the zone is found by the subnet";
  RentRequest other = Request("two");
  other.setup.subnet = "subnet-b";
  const RentReply none = provider_->Rent(other);
  EXPECT_EQ(none.end.fault, CallFault::kRefused);
  EXPECT_THAT(none.end.message, HasSubstr("no subnet of subnet-b is in zone eu-test-1a"));
  other.setup.subnet = "subnet-b,subnet-b2";
  EXPECT_THAT(provider_->Rent(other).end.message, HasSubstr("name one of each zone"));
  other.setup.subnet = "subnet-x";
  EXPECT_THAT(provider_->Rent(other).end.message, HasSubstr("InvalidSubnetID.NotFound"));
}

TEST_F(Ec2Test, OneSetupHasOneTemplate) {
  ASSERT_TRUE(provider_->Rent(Request("one")).end.ok());
  ASSERT_TRUE(provider_->Rent(Request("two")).end.ok());
  provider_ = cloud_->Open(Keys::kRight);
  ASSERT_TRUE(provider_->Rent(Request("three")).end.ok()) << "that it is there is no error";
  RentRequest other = Request("four");
  other.setup.user_data = "#!/bin/true\n";
  ASSERT_TRUE(provider_->Rent(other).end.ok());
  EXPECT_EQ(cloud_->Book().Find("left_behind")->children.size(), 2U);
}

TEST_F(Ec2Test, ATemplateThatSomebodyRemovedIsMadeAnew) {
  ASSERT_TRUE(provider_->Rent(Request("one")).end.ok());
  ASSERT_TRUE(cloud_->Open(Keys::kRight)->Tidy({{"run", "r1"}}).ok());
  const RentReply rent = provider_->Rent(Request("two"));
  EXPECT_TRUE(rent.end.ok()) << rent.end.message;
}

TEST_F(Ec2Test, WhatEc2WouldRefuseIsRefusedHere) {
  RentRequest request = Request();
  request.setup.user_data = std::string(16385, 'x');
  EXPECT_THAT(provider_->Rent(request).end.message, HasSubstr("16385 bytes, EC2 takes 16384"));
  request = Request();
  request.setup.image.clear();
  EXPECT_THAT(provider_->Rent(request).end.message, HasSubstr("name one (ami-...)"));
  EXPECT_THAT(cloud_->Book().Find("calls")->children, testing::IsEmpty());
}

TEST_F(Ec2Test, AnEncodedRefusalIsDecoded) {
  cloud_->Order(R"({"faults": [{"call": "rent", "kind": "denied"}]})");
  const RentReply rent = provider_->Rent(Request());
  EXPECT_EQ(rent.end.fault, CallFault::kDenied);
  EXPECT_THAT(rent.end.message, HasSubstr("it needs ec2:RunInstances"));
  EXPECT_THAT(rent.end.message, testing::Not(HasSubstr("c2VjcmV0")));
}

TEST_F(Ec2Test, TheCheckTellsWhatIsMissing) {
  cloud_->Order(R"({"denied": ["CreateFleet"], "quotas": {"L-3819A6DF": 2}})");
  RentRequest request = Request();
  request.setup.key_name = "key-9";
  request.setup.security_group = "sg-9";
  request.setup.image = "ami-9";
  request.pools[1].zone = "eu-test-1x";
  const std::vector<CheckLine> lines = provider_->Check(request);
  EXPECT_THAT(LineOf(lines, "credentials")->finding, HasSubstr("account 123456789012"));
  EXPECT_THAT(LineOf(lines, "image ami-9")->end.message, HasSubstr("is deregistered"));
  EXPECT_THAT(LineOf(lines, "key pair key-9")->end.message, HasSubstr("does not exist"));
  EXPECT_THAT(LineOf(lines, "security group sg-9")->end.message, HasSubstr("does not exist"));
  EXPECT_THAT(
      LineOf(lines, "eu-test-1x")->end.message,
      HasSubstr("EC2 has no g5.xlarge in eu-test-1x; there is g4dn.xlarge in eu-test-1a"));
  EXPECT_EQ(LineOf(lines, "permission ec2:CreateFleet")->end.fault, CallFault::kDenied);
  EXPECT_TRUE(LineOf(lines, "permission ec2:RunInstances")->end.ok());
  EXPECT_EQ(LineOf(lines, "quota of G and VT spot")->end.fault, CallFault::kQuota);
  EXPECT_THAT(
      LineOf(lines, "quota of G and VT spot")->end.message,
      HasSubstr("0 of 2 in use; one g4dn.xlarge has 4"));
}

TEST_F(Ec2Test, AQuotaIsAboutTheTypesThatCountForItAndDoNotFit) {
  cloud_->Order(R"({"quotas": {"L-34B43A08": 4}})");
  RentRequest request = Request();
  const Pool small = {.type = "m5.large", .zone = "eu-test-1a", .is_spot = true};
  const Pool large = {.type = "c5.4xlarge", .zone = "eu-test-1b", .is_spot = true};
  request.pools.push_back(large);
  request.pools.push_back(small);
  std::vector<Pool> fitting;
  std::vector<Pool> full;
  for (const CheckLine& line : provider_->Check(request)) {
    if (line.what.starts_with("quota of Standard")) {
      (line.end.ok() ? fitting : full) = line.pools;
    }
  }
  EXPECT_THAT(fitting, testing::ElementsAre(small));
  EXPECT_THAT(full, testing::ElementsAre(large));
}

TEST_F(Ec2Test, WhatIsInUseLeavesTheQuotaLessRoom) {
  cloud_->Order(R"({"quotas": {"L-3819A6DF": 14}})");
  const auto room = [&] {
    return LineOf(provider_->Check(Request()), "quota of G and VT spot")->room;
  };
  EXPECT_EQ(room(), 3U);
  const RentReply rent = provider_->Rent(Request());
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  RentRequest stable = Request("stable");
  for (Pool& pool : stable.pools) {
    pool.is_spot = false;
  }
  ASSERT_TRUE(provider_->Rent(stable).end.ok());
  EXPECT_EQ(room(), 2U) << "machines on demand count for another quota";
  EXPECT_THAT(
      LineOf(provider_->Check(Request()), "quota of G and VT spot")->finding,
      HasSubstr("4 of 14 in use"));
  ASSERT_TRUE(provider_->Release({rent.machine->id}).ok());
  EXPECT_EQ(room(), 3U);
}

TEST_F(Ec2Test, PricesAreToldOfAllZones) {
  const PriceReply reply = provider_->Prices(
      {{.type = "g5.xlarge", .zone = "", .is_spot = true},
       {.type = "m5.large", .zone = "eu-test-1a", .is_spot = true}},
      0);
  ASSERT_TRUE(reply.end.ok()) << reply.end.message;
  EXPECT_EQ(reply.prices.size(), 4U);
}

TEST_F(Ec2Test, PricesOnDemandAreThoseOfTheList) {
  cloud_->Order(R"({"prices": {"m5.large in eu-test-1a": 0.096}})");
  const Pool pool = {.type = "m5.large", .zone = "eu-test-1a", .is_spot = false};
  const Pool none = {.type = "no.such", .zone = "eu-test-1a", .is_spot = false};
  for (int i = 0; i < 2; ++i) {
    const PriceReply reply = provider_->Prices({pool, none}, 0);
    ASSERT_TRUE(reply.end.ok()) << reply.end.message;
    ASSERT_EQ(reply.prices.size(), 1U);
    EXPECT_EQ(reply.prices.front().pool, pool);
    EXPECT_EQ(reply.prices.front().usd_per_hour, 0.096);
    EXPECT_EQ(reply.prices.front().since_us, 1'793'491'200'000'000) << "2026-11-01";
  }
  EXPECT_EQ(cloud_->Book().Find("calls")->Find("GetProducts")->text, "2") << "each type once";
}

TEST_F(Ec2Test, TheEnvironmentIsEnoughToOpenIt) {
  std::map<std::string, std::string> variables = {
      {"AWS_ACCESS_KEY_ID", "AKIDTEST"},
      {"AWS_SECRET_ACCESS_KEY", "c2VjcmV0LW9mLXRoZS10ZXN0"},
      {"AWS_REGION", "eu-test-1"},
      {"AWS_ENDPOINT_URL_EC2", cloud_->url() + "/"}};
  const Environment environment = [&](const std::string& name) {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
  const auto provider = OpenEc2Provider(environment, "", "", nullptr);
  ASSERT_TRUE(provider.ok()) << provider.status();
  const ListReply list = provider.value()->List({});
  EXPECT_TRUE(list.end.ok()) << list.end.message;
  variables.erase("AWS_SECRET_ACCESS_KEY");
  const auto half = OpenEc2Provider(environment, "", "", nullptr);
  EXPECT_EQ(half.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(half.status().message()), HasSubstr("AWS_SECRET_ACCESS_KEY is not"));
}

TEST(Ec2RepliesTest, AFleetThatFailsInsideLeavesNothingUnclear) {
  const RentRequest request = {
      .token = "t",
      .pools = {{.type = "a", .zone = "z1", .is_spot = true}},
      .setup = {},
      .tags = {}};
  const auto reply = [&](const std::string& inside) {
    const auto xml = aws::ParseXml("<CreateFleetResponse>" + inside + "</CreateFleetResponse>");
    EXPECT_TRUE(xml.ok()) << xml.status();
    return ReadFleet(*xml, request, {});
  };
  const std::string pool =
      "<launchTemplateAndOverrides><overrides><instanceType>a</instanceType><availabilityZone>z1"
      "</availabilityZone></overrides></launchTemplateAndOverrides>";
  for (const char* const code : {"InternalError", "RequestLimitExceeded", "Server.Other"}) {
    const RentReply rent = reply(
        "<errorSet><item>" + pool + "<errorCode>" + code +
        "</errorCode><errorMessage>m</errorMessage></item></errorSet>");
    EXPECT_EQ(rent.end.fault, CallFault::kNoStock) << code;
    EXPECT_EQ(rent.pool_faults.size(), 1U);
  }
  const RentReply nothing = reply("<errorSet/><fleetInstanceSet/>");
  EXPECT_EQ(nothing.end.fault, CallFault::kNoStock);
  EXPECT_EQ(nothing.pool_faults.size(), 1U);
  const RentReply both = reply(
      "<errorSet><item>" + pool + "<errorCode>UnauthorizedOperation</errorCode></item><item>" +
      pool + "<errorCode>InsufficientInstanceCapacity</errorCode></item></errorSet>");
  EXPECT_EQ(both.end.fault, CallFault::kNoStock) << "stock comes back";
  EXPECT_EQ(both.pool_faults.size(), 2U);
  EXPECT_THAT(both.pool_faults.front().end.message, HasSubstr("no permission ec2:RunInstances"));
}

TEST(Ec2RepliesTest, InstancesWithoutNameOrStateAreNone) {
  for (const char* const inside :
       {"<instanceState><name>running</name></instanceState>",
        "<instanceId>i-1</instanceId>",
        "<instanceId>i-1</instanceId><instanceState><name>dreaming</name></instanceState>"}) {
    const auto xml = aws::ParseXml(
        std::string("<r><reservationSet><item><instancesSet><item>") + inside +
        "</item></instancesSet></item></reservationSet></r>");
    ASSERT_TRUE(xml.ok());
    EXPECT_EQ(ReadInstances(*xml).status().code(), StatusCode::kCorruption) << inside;
  }
}

TEST(Ec2RepliesTest, TheEndOfAMachineIsReadFromItsReason) {
  const auto ended = [](const std::string& reason) {
    const auto xml = aws::ParseXml(
        "<r><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceState>"
        "<name>terminated</name></instanceState><reason>" +
        reason + "</reason></item></instancesSet></item></reservationSet></r>");
    return ReadInstances(*xml)->front().ended_us;
  };
  EXPECT_EQ(ended("User initiated (2026-11-01 00:00:01 GMT)"), 1'793'491'201'000'000);
  for (const char* const reason :
       {"",
        "(",
        "User initiated",
        "User initiated (2026-11-01 00:00:01)",
        "x (2026 GMT)",
        "(soon, and no day at  GMT)"}) {
    EXPECT_EQ(ended(reason), 0) << reason;
  }
}

TEST(Ec2RepliesTest, APriceIsANumber) {
  for (const char* const text : {"", "-1", "nan", "1e999", "0.1x"}) {
    const auto xml = aws::ParseXml(
        std::string("<r><spotPriceHistorySet><item><spotPrice>") + text +
        "</spotPrice></item></spotPriceHistorySet></r>");
    ASSERT_TRUE(xml.ok());
    EXPECT_FALSE(ReadPrices(*xml).ok()) << text;
  }
}

}  // namespace
}  // namespace ps::provisioner
