// What is Compute Engine's own: types with devices, codes, zones that are away, tokens.

#include "provisioner/provider/gce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/provider/gce_faults.h"
#include "provisioner/provider/gce_forms.h"
#include "provisioner/provider/gce_replies.h"
#include "tests/provisioner/provider/gce_cloud.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class GceTest : public testing::Test {
 protected:
  static void TearDownTestSuite() { cloud_.reset(); }

  void SetUp() override {
    if (cloud_ == nullptr) {
      cloud_ = std::make_unique<GceCloud>();
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

  static const CheckLine* LineOf(const std::vector<CheckLine>& lines, const std::string& what) {
    for (const CheckLine& line : lines) {
      if (line.what.find(what) != std::string::npos) {
        return &line;
      }
    }
    ADD_FAILURE() << "no line of " << what;
    static const CheckLine none;
    return &none;
  }

  static std::unique_ptr<GceCloud> cloud_;
  std::unique_ptr<Provider> provider_;
};

std::unique_ptr<GceCloud> GceTest::cloud_;

TEST_F(GceTest, AMachineIsWhatItsSetupSays) {
  RentRequest request = Request();
  request.setup.subnet = "net-1";
  request.setup.key_name = "me:ssh-ed25519 AAAA";
  const RentReply rent = provider_->Rent(request);
  ASSERT_TRUE(rent.end.ok()) << rent.end.message;
  EXPECT_EQ(rent.machine->id, "us-central1-a/run-worker-1");
  const JsonValue book = cloud_->Book();
  const JsonValue* const setup = book.Find("machines")->children.front().Find("setup");
  const std::map<std::string, std::string> wanted = {
      {"machineType", "zones/us-central1-a/machineTypes/n1-standard-8"},
      {"guestAccelerators[0].acceleratorType",
       "projects/p-1/zones/us-central1-a/acceleratorTypes/nvidia-tesla-t4"},
      {"scheduling.provisioningModel", "SPOT"},
      {"scheduling.instanceTerminationAction", "DELETE"},
      {"scheduling.maxRunDuration.seconds", "7200"},
      {"scheduling.onHostMaintenance", "TERMINATE"},
      {"disks[0].autoDelete", "true"},
      {"disks[0].initializeParams.diskSizeGb", "100"},
      {"disks[0].initializeParams.labels.run", "r1"},
      {"networkInterfaces[0].subnetwork", "regions/us-central1/subnetworks/net-1"},
      {"tags.items[0]", "training"},
      {"metadata.items[0].key", "startup-script"},
      {"metadata.items[0].value", request.setup.user_data},
      {"metadata.items[1].value", "me:ssh-ed25519 AAAA"},
      {"serviceAccounts[0].email", "worker@p-1.iam.gserviceaccount.com"}};
  for (const auto& [path, value] : wanted) {
    const JsonValue* const found = setup->At(path);
    ASSERT_NE(found, nullptr) << path;
    EXPECT_EQ(found->text, value) << path;
  }
}

TEST_F(GceTest, AStableMachineIsMovedNotEnded) {
  RentRequest request = Request();
  request.pools = {{.type = "e2-standard-4", .zone = "us-central1-a", .is_spot = false}};
  request.setup.run_max = {};
  ASSERT_TRUE(provider_->Rent(request).end.ok());
  const JsonValue book = cloud_->Book();
  const JsonValue* const setup = book.Find("machines")->children.front().Find("setup");
  EXPECT_EQ(setup->At("scheduling.onHostMaintenance")->text, "MIGRATE");
  EXPECT_EQ(setup->At("scheduling.instanceTerminationAction"), nullptr);
  EXPECT_EQ(setup->At("scheduling.maxRunDuration"), nullptr);

  RentRequest kept = Request("two");
  kept.pools = request.pools;
  kept.setup.keeps_disk = true;
  ASSERT_TRUE(provider_->Rent(kept).end.ok());
  const JsonValue after = cloud_->Book();
  EXPECT_EQ(
      after.Find("machines")
          ->children.back()
          .At("setup.scheduling.instanceTerminationAction")
          ->text,
      "STOP")
      << "by its longest time, which the request has";
}

TEST_F(GceTest, AListWithAZoneThatIsAwayIsNone) {
  ASSERT_TRUE(provider_->Rent(Request()).end.ok());
  cloud_->Order(R"({"unreachable": "us-central1-b"})");
  const ListReply list = provider_->List({{"run", "r1"}});
  EXPECT_EQ(list.end.fault, CallFault::kUnclear);
  EXPECT_THAT(list.end.message, HasSubstr("zones/us-central1-b could not be reached"));
  EXPECT_THAT(list.machines, testing::IsEmpty());
  // And nothing is rented while it can't be told whether the token has its machine there.
  EXPECT_EQ(provider_->Rent(Request("two")).end.fault, CallFault::kUnclear);
}

TEST_F(GceTest, AnOperationThatCanNotBeAskedForIsUnclear) {
  for (const char* const kind : {"throttled", "internal", "denied", "lost", "garbage"}) {
    cloud_->Order(std::string(R"({"faults": [{"call": "wait", "kind": ")") + kind + R"("}]})");
    const std::string token = std::string("worker-") + kind;
    const RentReply rent = provider_->Rent(Request(token));
    EXPECT_EQ(rent.end.fault, CallFault::kUnclear) << kind << ": " << rent.end.message;
    const RentReply again = provider_->Rent(Request(token));
    EXPECT_TRUE(again.end.ok()) << again.end.message;
  }
  EXPECT_EQ(cloud_->Book().Find("machines")->children.size(), 5U);
}

TEST_F(GceTest, TheCheckTellsWhatIsMissing) {
  cloud_->Order(
      R"({"denied": ["compute.subnetworks.use"], "gpus_all_regions": 1,
          "quotas": {"PREEMPTIBLE_NVIDIA_T4_GPUS": [4, 4], "CPUS": [70, 72]}})");
  const std::vector<CheckLine> lines = provider_->Check(Request());
  EXPECT_EQ(LineOf(lines, "credentials")->finding, "project p-1");
  EXPECT_EQ(LineOf(lines, "permission compute.subnetworks.use")->end.fault, CallFault::kDenied);
  EXPECT_TRUE(LineOf(lines, "permission compute.instances.create")->end.ok());
  EXPECT_THAT(
      LineOf(lines, "quota PREEMPTIBLE_NVIDIA_T4_GPUS")->end.message,
      HasSubstr("4 of 4 in use; one n1-standard-8-t4 has 1"));
  EXPECT_TRUE(LineOf(lines, "quota PREEMPTIBLE_NVIDIA_L4_GPUS")->end.ok());
  EXPECT_EQ(LineOf(lines, "quota GPUS_ALL_REGIONS of all regions")->end.fault, CallFault::kQuota);
  EXPECT_EQ(LineOf(lines, "quota CPUS")->end.fault, CallFault::kQuota)
      << "spot counts with all others where it has no quota of its own";
}

TEST_F(GceTest, ImagesOfOtherProjectsAndTheNetworkAreLookedAt) {
  RentRequest request = Request();
  request.setup.image = "projects/debian-cloud/global/images/family/debian-12";
  request.setup.subnet = "net-1";
  std::vector<CheckLine> lines = provider_->Check(request);
  EXPECT_EQ(LineOf(lines, "image projects/debian-cloud")->finding, "debian-12");
  EXPECT_TRUE(LineOf(lines, "network regions/us-central1/subnetworks/net-1")->end.ok());
  request.setup.image = "projects/debian-cloud/global/images/family/debian-99";
  request.setup.subnet = "net-9";
  lines = provider_->Check(request);
  EXPECT_EQ(LineOf(lines, "image projects/debian-cloud")->end.fault, CallFault::kRefused);
  const CheckLine* const network = LineOf(lines, "network regions/us-central1/subnetworks/net-9");
  EXPECT_EQ(network->end.fault, CallFault::kRefused);
  EXPECT_EQ(network->pools, request.pools) << "those of the region";
  lines = provider_->Check(Request());
  EXPECT_TRUE(LineOf(lines, "network global/networks/default")->end.ok());
  cloud_->Order(R"({"faults": [{"call": "networks.get", "kind": "denied"}]})");
  lines = provider_->Check(Request());
  EXPECT_TRUE(LineOf(lines, "network global/networks/default")->end.ok());
  EXPECT_THAT(
      LineOf(lines, "network global/networks/default")->finding, HasSubstr("not looked at: "));
}

TEST_F(GceTest, AQuotaHasRoomForSoManyMachines) {
  cloud_->Order(R"({"quotas": {"PREEMPTIBLE_NVIDIA_T4_GPUS": [1, 4]}})");
  const std::vector<CheckLine> lines = provider_->Check(Request());
  EXPECT_EQ(LineOf(lines, "quota PREEMPTIBLE_NVIDIA_T4_GPUS")->room, 3U);
}

TEST_F(GceTest, TokensComeFromFilesOrTheMachine) {
  std::map<std::string, std::string> variables;
  const auto http = MakeHttpClient({}, nullptr);
  const auto find = [&] {
    return FindGoogleToken(
        [&](const std::string& name) {
          const auto it = variables.find(name);
          return it == variables.end() ? std::nullopt : std::optional(it->second);
        },
        http.get(),
        SystemTime());
  };
  variables["GCE_METADATA_HOST"] = "127.0.0.1:1";
  variables["HOME"] = cloud_->FileOf("nowhere");
  const auto none = find();
  EXPECT_EQ(none.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(none.status().message()), HasSubstr("set GOOGLE_APPLICATION_CREDENTIALS"));
  variables["GOOGLE_APPLICATION_CREDENTIALS"] = cloud_->FileOf("account");
  const auto found = find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->project, "p-1");
  EXPECT_THAT(found->source, HasSubstr("ml@p-1.iam.gserviceaccount.com of "));
  const std::pair<std::string, std::string> mistakes[] = {
      {"hidden", "is no JSON file of a key"},
      {R"({"type": "external_account", "x": "hidden"})",
       "of type \"external_account\", which is not"},
      {R"({"type": "service_account", "private_key": "hidden", "client_email": "a"})",
       "no RSA key in PEM"}};
  const std::string path = cloud_->FileOf("mistake");
  variables["GOOGLE_APPLICATION_CREDENTIALS"] = path;
  for (const auto& [text, said] : mistakes) {
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
    const auto wrong = find();
    EXPECT_EQ(wrong.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(wrong.status().message()), HasSubstr(said));
    EXPECT_THAT(std::string(wrong.status().message()), Not(HasSubstr("hidden")));
  }
}

TEST_F(GceTest, TheEnvironmentIsEnoughToOpenIt) {
  const std::string host = cloud_->url().substr(std::string("http://").size());
  const std::map<std::string, std::string> ways[] = {
      {{"GOOGLE_APPLICATION_CREDENTIALS", cloud_->FileOf("account")}},
      {{"GCE_METADATA_HOST", host}, {"HOME", cloud_->FileOf("nowhere")}}};
  for (const auto& variables : ways) {
    const Environment environment = [&](const std::string& name) {
      const auto it = variables.find(name);
      return it == variables.end() ? std::nullopt : std::optional(it->second);
    };
    const auto provider = OpenGceProvider(environment, "", cloud_->url(), nullptr);
    ASSERT_TRUE(provider.ok()) << provider.status();
    const ListReply list = provider.value()->List({});
    EXPECT_TRUE(list.end.ok()) << list.end.message;
  }
  const Environment nothing = [&](const std::string& name) {
    return name == "GCE_METADATA_HOST" ? std::optional<std::string>("127.0.0.1:1") : std::nullopt;
  };
  EXPECT_EQ(
      OpenGceProvider(nothing, "", cloud_->url(), nullptr).status().code(),
      StatusCode::kInvalidArgument);
}

TEST(GceFaultsTest, CodesAreToldApartByWhatTheyAskFor) {
  const std::pair<GceError, CallFault> cases[] = {
      {{0, "ZONE_RESOURCE_POOL_EXHAUSTED", ""}, CallFault::kNoStock},
      {{0, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", ""}, CallFault::kNoStock},
      {{503, "ZONE_RESOURCE_POOL_EXHAUSTED", ""}, CallFault::kNoStock},
      {{0, "QUOTA_EXCEEDED", ""}, CallFault::kQuota},
      {{403, "quotaExceeded", ""}, CallFault::kQuota},
      {{403, "rateLimitExceeded", ""}, CallFault::kThrottled},
      {{429, "", ""}, CallFault::kThrottled},
      {{0, "RESOURCE_OPERATION_RATE_EXCEEDED", ""}, CallFault::kThrottled},
      {{403, "forbidden", ""}, CallFault::kDenied},
      {{403, "SomethingNew", ""}, CallFault::kDenied},
      {{401, "authError", ""}, CallFault::kCredentials},
      {{401, "", ""}, CallFault::kCredentials},
      {{404, "notFound", ""}, CallFault::kRefused},
      {{400, "invalid", ""}, CallFault::kRefused},
      {{409, "alreadyExists", ""}, CallFault::kRefused},
      {{503, "backendError", ""}, CallFault::kUnclear},
      {{502, "", ""}, CallFault::kUnclear},
      {{400, "resourceNotReady", ""}, CallFault::kUnclear},
  };
  for (const auto& [error, fault] : cases) {
    EXPECT_EQ(CallFaultName(GceFaultOf(error)), CallFaultName(fault))
        << error.http_status << " " << error.code;
  }
}

TEST(GceFormsTest, TypesMayHaveDevices) {
  const auto plain = ParseGceType("e2-standard-4");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->accelerators, 0);
  const auto two = ParseGceType("n1-standard-4+nvidia-tesla-t4:2");
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->machine, "n1-standard-4");
  EXPECT_EQ(two->accelerator, "nvidia-tesla-t4");
  EXPECT_EQ(two->accelerators, 2);
  EXPECT_EQ(ParseGceType("n1-standard-8-v100")->accelerator, "nvidia-tesla-v100");
  for (const char* const text : {"", "A", "a b", "a+", "a+b:0", "a+b:x", "a+b:99", "a/../b"}) {
    EXPECT_FALSE(ParseGceType(text).has_value()) << text;
  }
  for (const char* const type : {"e2-standard-4", "n1-standard-4+nvidia-tesla-t4:2", "a+b"}) {
    EXPECT_EQ(GceTypeOf(GceTypeLabel(type)), type);
  }
}

TEST(GceFormsTest, ARequestHasOneIdInEachPool) {
  RentRequest request;
  request.token = "a";
  const Pool one = {.type = "t", .zone = "z1"};
  const Pool two = {.type = "t", .zone = "z2"};
  EXPECT_EQ(GceRequestId(request, one), GceRequestId(request, one));
  EXPECT_NE(GceRequestId(request, one), GceRequestId(request, two));
  EXPECT_THAT(
      GceRequestId(request, one),
      testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}"));
}

TEST(GceRepliesTest, InstancesWithoutNameZoneOrStateAreNone) {
  for (const char* const text :
       {"{}",
        R"({"name": "a", "zone": "z"})",
        R"({"name": "a", "zone": "z", "status": "DREAMING"})",
        R"({"zone": "z", "status": "RUNNING"})",
        R"({"name": "a", "status": "RUNNING"})"}) {
    EXPECT_FALSE(ReadGceInstance(*ParseJson(text, "t")).ok()) << text;
  }
  EXPECT_TRUE(
      ReadGceInstance(*ParseJson(R"({"name": "a", "zone": "z", "status": "RUNNING"})", "t")).ok());
}

}  // namespace
}  // namespace ps::provisioner
