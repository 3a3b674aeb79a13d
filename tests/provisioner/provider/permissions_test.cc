// The smallest permissions, as files for users, against the calls that are made.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "provisioner/provider/gce_check.h"
#include "ps/base/file.h"
#include "tests/provisioner/provider/ec2_cloud.h"
#include "tests/provisioner/provider/gce_cloud.h"

namespace ps::provisioner {
namespace {

/// The names of all calls of a machine's life, its check and its prices among them.
std::set<std::string> CallsOf(Cloud* cloud, RentRequest request) {
  cloud->Order(R"({"reset": true})");
  const auto provider = cloud->Open(Keys::kRight);
  provider->Check(request);
  RentReply rent = provider->Rent(request);
  EXPECT_TRUE(rent.end.ok()) << rent.end.message;
  EXPECT_TRUE(provider->List(request.tags).end.ok());
  std::vector<Pool> pools = request.pools;
  pools.push_back({.type = pools.front().type, .zone = pools.front().zone, .is_spot = false});
  const PriceReply prices = provider->Prices(pools, 0);
  EXPECT_TRUE(prices.end.ok()) << prices.end.message;
  cloud->Order("{\"end_s\": 60, \"revoke\": \"" + rent.machine->id + "\"}");
  EXPECT_TRUE(provider->List(request.tags).end.ok());
  EXPECT_TRUE(provider->Release({rent.machine->id}).ok());
  EXPECT_TRUE(provider->Tidy(request.tags).ok());
  cloud->Order(R"({"faults": [{"call": "rent", "kind": "denied"}]})");
  request.token += "-denied";
  EXPECT_EQ(provider->Rent(request).end.fault, CallFault::kDenied);
  std::set<std::string> calls;
  const JsonValue book = cloud->Book();
  for (const JsonValue& call : book.Find("calls")->children) {
    calls.insert(call.key);
  }
  return calls;
}

TEST(PermissionsTest, ThePolicyOfEc2HasWhatIsCalledAndNoMore) {
  Ec2Cloud cloud;
  if (!cloud.why_not().empty()) {
    GTEST_SKIP() << cloud.why_not();
  }
  RentRequest request = cloud.Request("run-worker-1");
  request.setup.subnet = "subnet-a,subnet-b";
  request.setup.disk_gib = 100;
  // What others need for these: the fleet runs instances and tags them, with a role, and the first
  // one of an account makes the roles of the service.
  std::set<std::string> needed = {"ec2:CreateTags", "iam:PassRole", "iam:CreateServiceLinkedRole"};
  for (const std::string& call : CallsOf(&cloud, request)) {
    const bool is_sts = call == "GetCallerIdentity" || call == "DecodeAuthorizationMessage";
    const std::string service = is_sts                      ? "sts:"
                                : call == "GetServiceQuota" ? "servicequotas:"
                                : call == "GetProducts"     ? "pricing:"
                                                            : "ec2:";
    needed.insert(service + call);
  }
  needed.erase("sts:GetCallerIdentity");  // everybody may
  const auto text = ReadFile("configs/cloud/ec2_policy.json");
  ASSERT_TRUE(text.ok()) << text.status();
  const auto policy = ParseJson(*text, "ec2_policy.json");
  ASSERT_TRUE(policy.ok()) << policy.status();
  std::set<std::string> granted;
  for (const JsonValue& statement : policy->Find("Statement")->children) {
    const JsonValue* const action = statement.Find("Action");
    if (action->kind == JsonValue::Kind::kText) {
      granted.insert(action->text);
    }
    for (const JsonValue& one : action->children) {
      granted.insert(one.text);
    }
  }
  EXPECT_THAT(granted, testing::ContainerEq(needed));
}

TEST(PermissionsTest, TheRoleOfComputeEngineHasWhatIsCalled) {
  GceCloud cloud;
  if (!cloud.why_not().empty()) {
    GTEST_SKIP() << cloud.why_not();
  }
  const auto text = ReadFile("configs/cloud/gce_role.yaml");
  ASSERT_TRUE(text.ok()) << text.status();
  std::set<std::string> granted;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("- ")) {
      granted.insert(line.substr(2));
    }
  }
  EXPECT_THAT(
      granted,
      testing::ContainerEq(
          std::set<std::string>(GcePermissions().begin(), GcePermissions().end())));
  const std::map<std::string, std::string> special = {
      {"instances.insert", "instances.create"},
      {"operations.wait", "zoneOperations.get"},
      {"operations.list", "zoneOperations.list"}};
  for (const std::string& call : CallsOf(&cloud, cloud.Request("run-worker-1"))) {
    if (call != "token" && call != "testIamPermissions") {
      const auto it = special.find(call);
      const std::string permission = "compute." + (it == special.end() ? call : it->second);
      EXPECT_TRUE(granted.contains(permission)) << permission;
    }
  }
}

}  // namespace
}  // namespace ps::provisioner
