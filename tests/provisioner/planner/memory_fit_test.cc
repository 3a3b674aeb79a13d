#include "provisioner/planner/memory_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/model/job_models.h"
#include "provisioner/planner/plan_setup.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kGib = 1024.0 * 1024 * 1024;

proto::InstanceType MemoryType(const char* name, double memory_gib, double device_memory_gib) {
  proto::InstanceType type;
  type.name = name;
  type.device = device_memory_gib > 0 ? "V100" : "cpu";
  type.device_memory_gib = device_memory_gib;
  type.pcie_gbyte_per_s = device_memory_gib > 0 ? 10 : 0;
  type.memory_gib = memory_gib;
  type.network_gbit_per_s = 10;
  type.network_burst_gbit_per_s = 10;
  type.on_demand_usd_per_hour = 2;
  type.spot = {{"zone", 1, "2026-01-01"}};
  type.quota = 4;
  type.is_server_host = device_memory_gib == 0;
  return type;
}

/// A job of 4 GiB of parameters.
class MemoryFitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    catalog_.provider = "test";
    catalog_.types = {
        MemoryType("small", 64, 8), MemoryType("large", 64, 16), MemoryType("cpu", 32, 0)};
    profile_.job = "job";
    profile_.parameter_bytes = 4 * kGib;
    profile_.workers = {{"small", 8, 1}, {"large", 8, 1}, {"cpu", 8, 10}};
  }

  Result<PlanProblem> Make(const PlanSetup& setup = {}) {
    Result<JobModels> models = BuildJobModels(catalog_, profile_, {});
    EXPECT_TRUE(models.ok()) << models.status();
    models_ = std::move(models).value();
    return MakePlanProblem(catalog_, models_, setup);
  }

  std::vector<std::string> Offered(const PlanSetup& setup = {}) {
    const Result<PlanProblem> problem = Make(setup);
    EXPECT_TRUE(problem.ok()) << problem.status();
    std::vector<std::string> names;
    for (const Offer& offer : problem.ok() ? problem->offers : std::vector<Offer>()) {
      const WorkerClass& worker = models_.speed->classes()[static_cast<size_t>(offer.worker_class)];
      names.push_back(worker.name);
    }
    return names;
  }

  std::vector<std::string> Notes(int server_hosts = 1) {
    const Result<PlanProblem> problem = Make();
    EXPECT_TRUE(problem.ok()) << problem.status();
    FleetChoice choice;
    choice.counts.assign(problem->offers.size(), 1);
    choice.server_hosts = server_hosts;
    return MemoryNotes(catalog_, models_, *problem, choice);
  }

  proto::Catalog catalog_;
  proto::JobProfile profile_;
  JobModels models_;
};

TEST_F(MemoryFitTest, ADeviceHoldsParametersAndAGradientAtLeast) {
  EXPECT_THAT(Offered(), ElementsAre("large", "cpu"));
  const Result<PlanProblem> problem = Make();
  EXPECT_THAT(
      LeftOutNotes(*problem),
      ElementsAre("left out as workers, since the job does not fit into memory: small (parameters "
                  "and gradients alone take 8.0 GiB of each device, where 7.2 GiB may be used)"));
}

TEST_F(MemoryFitTest, AWorkersOwnMemoryIsTheProfiles) {
  profile_.workers[1].host_bytes = 9 * kGib;
  profile_.workers[1].device_bytes = 15 * kGib;  // of 16, of which nine tenths
  profile_.workers[2].host_bytes = 28 * kGib;
  EXPECT_THAT(Offered(), ElementsAre("cpu"));
  EXPECT_THAT(
      LeftOutNotes(*Make()).front(),
      HasSubstr("large (15.0 GiB of each device, where 14.4 GiB may be used)"));
  profile_.workers[2].host_bytes = 29 * kGib;
  profile_.workers[1].device_bytes = 14 * kGib;
  EXPECT_THAT(Offered(), ElementsAre("large"));
  EXPECT_THAT(LeftOutNotes(*Make()).front(), HasSubstr("cpu (29.0 GiB of main memory, where"));
}

TEST_F(MemoryFitTest, OfATypesMinibatchesThoseThatFitAreOffered) {
  profile_.workers = {{"large", 8, 1}, {"large", 64, 8}};
  profile_.workers[0].host_bytes = profile_.workers[1].host_bytes = 9 * kGib;
  profile_.workers[0].device_bytes = 10 * kGib;
  profile_.workers[1].device_bytes = 20 * kGib;
  EXPECT_THAT(Offered(), ElementsAre("large"));
  EXPECT_THAT(LeftOutNotes(*Make()).front(), HasSubstr("large:64 (20.0 GiB of each device"));
}

TEST_F(MemoryFitTest, WhatRunsFitsWhateverTheFiguresSay) {
  PlanSetup setup;
  setup.held = {{"small", 1}};
  EXPECT_THAT(Offered(setup), ElementsAre("small", "large", "cpu"));
  PlanSetup all;
  all.all_run = true;
  EXPECT_THAT(Offered(all), ElementsAre("small", "large", "cpu"));
}

TEST_F(MemoryFitTest, MemoryThatTheCatalogDoesNotSayIsNamedAndLeavesNothingOut) {
  catalog_.types[1].memory_gib = 0;
  catalog_.types[2].memory_gib = 0;
  profile_.workers.erase(profile_.workers.begin());
  EXPECT_THAT(
      Notes(),
      ElementsAre(
          "the catalog does not say the main memory of large, cpu (memory_gib): whether the job "
          "fits there is not known",
          HasSubstr("parameters and gradients alone were counted, since neither a job file nor "
                    "the profile says more of large")));
}

TEST_F(MemoryFitTest, DevicesWhoseMemoryTheCatalogDoesNotSayAreNamed) {
  profile_.workers.erase(profile_.workers.begin());
  catalog_.types[1].device_memory_gib = 0;
  EXPECT_THAT(
      Notes(),
      testing::Contains(HasSubstr("the catalog does not say the memory of the devices of large")));
}

TEST_F(MemoryFitTest, ServersBeginWithTheFewestThatHoldTheJob) {
  catalog_.types[2].memory_gib = 8;  // 7.2 GiB for the server, a quarter for the process
  profile_.workers.pop_back();
  profile_.server_bytes = 20 * kGib;
  const Result<PlanProblem> problem = Make();
  ASSERT_TRUE(problem.ok()) << problem.status();
  ASSERT_EQ(problem->servers.size(), 1U);
  EXPECT_EQ(problem->servers.front().hosts_min, 3);
  EXPECT_EQ(problem->servers.front().hosts_max, 4);
  EXPECT_THAT(
      Notes(3),
      testing::Contains("fewer than 3 cpu do not hold the job: each would need 10.2 GiB, and 7.2 "
                        "GiB may be used"));
  profile_.server_bytes_per_worker = 4 * kGib;
  EXPECT_EQ(Make()->servers.front().hosts_min, 4) << "no gradient fits beside";
  EXPECT_EQ(Make()->servers.front().memory.WorkersMax(4), 1);
}

TEST_F(MemoryFitTest, OptimizerValuesThatNobodyToldOfAreNamedWhereTheyMayMatter) {
  profile_.workers.pop_back();
  EXPECT_THAT(
      Notes(),
      testing::Contains(HasSubstr("of the servers' memory the parameters alone "
                                  "were counted, 4.0 GiB")));
  catalog_.types[2].memory_gib = 64;
  for (const std::string& note : Notes()) {
    EXPECT_THAT(note, testing::Not(HasSubstr("servers' memory"))) << "eight times as much fits";
  }
}

TEST_F(MemoryFitTest, WithoutAnyTypeThatHoldsTheJobThereIsNoProblem) {
  profile_.parameter_bytes = 40 * kGib;
  const Result<PlanProblem> none = Make();
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(
      std::string(none.status().message()),
      testing::AllOf(
          HasSubstr("nothing on offer has the memory for the job: left out as workers"),
          HasSubstr("small (parameters and gradients alone take 80.0 GiB of each device")));
  profile_.parameter_bytes = 4 * kGib;
  profile_.server_bytes = 400 * kGib;
  const Result<PlanProblem> no_servers = Make();
  ASSERT_FALSE(no_servers.ok());
  EXPECT_THAT(
      std::string(no_servers.status().message()),
      testing::AllOf(
          HasSubstr("left out as servers, since the job does not fit into memory: cpu (100.2 GiB "
                    "of each of 4 hosts, where 28.8 GiB may be used)"),
          HasSubstr("or more servers (--servers TYPE=HOSTS)")));
  PlanSetup running;
  running.servers_run = true;
  EXPECT_TRUE(Make(running).ok()) << "they hold it already";
}

TEST_F(MemoryFitTest, ManyTypesAreCounted) {
  profile_.workers.clear();
  catalog_.types.resize(1);
  for (int i = 0; i < 8; ++i) {
    catalog_.types.push_back(MemoryType(("t" + std::to_string(i)).c_str(), 64, 8));
    profile_.workers.push_back({"t" + std::to_string(i), 8, 1});
  }
  catalog_.types.push_back(MemoryType("large", 64, 16));
  catalog_.types.push_back(MemoryType("cpu", 32, 0));
  profile_.workers.push_back({"large", 8, 1});
  const Result<PlanProblem> problem = Make();
  ASSERT_TRUE(problem.ok()) << problem.status();
  const std::string note = LeftOutNotes(*problem).front();
  EXPECT_THAT(note, HasSubstr("t4 ("));
  EXPECT_THAT(note, testing::EndsWith(" and 3 more"));
}

TEST_F(MemoryFitTest, WhatWorkersHoldIsOfTheServersMemory) {
  profile_.workers.pop_back();
  JobModelOptions options;
  options.exchange.held_bytes_max = 6 * kGib;
  const Result<JobModels> models = BuildJobModels(catalog_, profile_, options);
  ASSERT_TRUE(models.ok()) << models.status();
  const ServerMemory memory = MemoryOfServer(catalog_.types[2], models->server_need);
  EXPECT_NEAR(memory.BytesOf(1, 1), (0.25 + 4 + 4) * kGib, 1);
  EXPECT_NEAR(memory.BytesOf(9, 1), (0.25 + 4 + 6) * kGib, 1);
  EXPECT_NEAR(memory.BytesOf(9, 8), (0.25 + 0.5 + 4.5) * kGib, 1);
}

}  // namespace
}  // namespace ps::provisioner
