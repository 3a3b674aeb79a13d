#include "provisioner/planner/vcpu_quotas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "provisioner/model/job_models.h"
#include "provisioner/planner/plan_setup.h"
#include "provisioner/planner/vcpu_room.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

proto::InstanceType FamilyType(const char* name, const char* family, int vcpus) {
  proto::InstanceType type;
  type.name = name;
  type.device = "cpu";
  type.vcpus = vcpus;
  type.network_gbit_per_s = 4;
  type.network_burst_gbit_per_s = 4;
  type.on_demand_usd_per_hour = 3;
  type.spot = {{"zone", 1, "2026-01-01"}};
  type.quota = 10;
  type.quota_is_guess = true;
  type.quota_family = family;
  return type;
}

class VcpuQuotasTest : public ::testing::Test {
 protected:
  void SetUp() override {
    catalog_.provider = "test";
    catalog_.region = "zone";
    catalog_.types = {
        FamilyType("p8", "P", 8), FamilyType("p32", "P", 32), FamilyType("m2", "Standard", 2)};
    catalog_.types.back().is_server_host = true;
    profile_.job = "job";
    profile_.parameter_bytes = 1e8;
    profile_.workers = {{"p8", 8, 1}, {"p32", 8, 0.2}, {"m2", 8, 5}};
  }

  Result<PlanProblem> Make(const PlanSetup& setup = {}) {
    Result<JobModels> models = BuildJobModels(catalog_, profile_, {});
    EXPECT_TRUE(models.ok()) << models.status();
    models_ = std::move(models).value();
    return MakePlanProblem(catalog_, models_, setup);
  }

  std::string ErrorOf(const PlanSetup& setup) {
    const Result<PlanProblem> problem = Make(setup);
    EXPECT_FALSE(problem.ok());
    return problem.ok() ? "" : std::string(problem.status().message());
  }

  proto::Catalog catalog_;
  proto::JobProfile profile_;
  JobModels models_;
};

TEST_F(VcpuQuotasTest, TypesOfAFamilyShareItsProcessors) {
  catalog_.vcpu_quotas = {{"P", 64, 0}};
  const Result<PlanProblem> problem = Make();
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->offers[0].quota, 8) << "64 of 8 each; the catalog's 10 is a guess";
  EXPECT_EQ(problem->offers[1].quota, 2);
  EXPECT_EQ(problem->offers[2].quota, 10) << "nobody tells of this family";
  const VcpuRoom room(*problem, 0, 1);
  EXPECT_TRUE(room.Fits(std::vector<int>{4, 1, 1})) << "32 + 32";
  EXPECT_FALSE(room.Fits(std::vector<int>{5, 1, 1}));
  EXPECT_FALSE(room.Fits(std::vector<int>{1, 2, 0}));
}

TEST_F(VcpuQuotasTest, ServersAreOnDemandAndLimitedThere) {
  PlanSetup setup;
  setup.vcpu_quotas = {{"Standard", proto::Market::kOnDemand, 5}};
  const Result<PlanProblem> problem = Make(setup);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->servers.front().hosts_max, 2) << "2 of 2 in 5";
  EXPECT_EQ(problem->offers[2].vcpu_quota, -1) << "its workers are spot";
}

TEST_F(VcpuQuotasTest, AQuotaOfATypeHoldsBeside) {
  catalog_.vcpu_quotas = {{"P", 64, 0}};
  PlanSetup setup;
  setup.quotas = {{"p8", 3}};
  EXPECT_EQ(Make(setup)->offers[0].quota, 3);
  catalog_.types[0].quota_is_guess = false;
  catalog_.types[0].quota = 5;
  EXPECT_EQ(Make()->offers[0].quota, 5) << "known, so it is one";
}

TEST_F(VcpuQuotasTest, AFamilyThatIsNotThereIsRefused) {
  PlanSetup setup;
  setup.vcpu_quotas = {{"G", proto::Market::kSpot, 8}};
  EXPECT_THAT(ErrorOf(setup), HasSubstr("a family that no type of the catalog is of"));
  EXPECT_THAT(ErrorOf(setup), HasSubstr("there are P, Standard"));
  setup.vcpu_quotas = {{"P", proto::Market::kSpot, 8}};
  catalog_.types[1].vcpus = 0;
  EXPECT_THAT(ErrorOf(setup), HasSubstr("the catalog does not say those of p32"));
}

TEST_F(VcpuQuotasTest, GuessesAreNamedWithWhatThePlanTakesOfThem) {
  proto::Plan plan;
  plan.workers = {{"p8", proto::Market::kSpot, 3}, {"p32", proto::Market::kSpot, 1}};
  plan.servers = {"m2", 2};
  EXPECT_THAT(
      QuotaNotes(catalog_, {}, plan),
      ElementsAre(
          "quotas are a guess: p8, p32, m2; the provider counts vCPUs by family, of which this "
          "takes 56 of P, spot; 4 of Standard, on demand: give yours with --quota-vcpus "
          "FAMILY=VCPUS"));
  PlanSetup setup;
  setup.vcpu_quotas = {{"P", proto::Market::kSpot, 64}};
  setup.quotas = {{"m2", 2}};
  EXPECT_THAT(QuotaNotes(catalog_, setup, plan), IsEmpty());
}

TEST_F(VcpuQuotasTest, AFastNetworkOfFewProcessorsIsNamed) {
  proto::Plan plan;
  plan.servers = {"m2", 1};
  catalog_.types[2].quota_is_guess = false;
  EXPECT_THAT(QuotaNotes(catalog_, {}, plan), IsEmpty());
  catalog_.types[2].network_gbit_per_s = 25;
  EXPECT_THAT(
      QuotaNotes(catalog_, {}, plan),
      ElementsAre(HasSubstr("m2 counts as fast a server as its network, 25 Gbit/s, with 2 vCPUs")));
  catalog_.server_gbit_per_vcpu = 3;
  EXPECT_THAT(QuotaNotes(catalog_, {}, plan), IsEmpty());
}

}  // namespace
}  // namespace ps::provisioner
