// Plans, predictions and simulations of jobs that are too large for some machines.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "provisioner/planner/planner.h"
#include "provisioner/profile/fingerprint.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"
#include "run/report/job_parts.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kGibBytes = 1024.0 * 1024 * 1024;

proto::InstanceType SizedType(const char* name, double usd, double memory_gib, double device_gib) {
  proto::InstanceType type;
  type.name = name;
  type.device = device_gib > 0 ? "A100" : "cpu";
  type.device_memory_gib = device_gib;
  type.pcie_gbyte_per_s = device_gib > 0 ? 10 : 0;
  type.memory_gib = memory_gib;
  type.network_gbit_per_s = 100;
  type.network_burst_gbit_per_s = 100;
  type.on_demand_usd_per_hour = 3 * usd;
  type.spot = {{"zone", usd, "2026-01-01"}};
  type.quota = 8;
  type.is_server_host = device_gib == 0;
  return type;
}

/// The shipped curves, of a job whose size each test says. The cheapest machines are the smallest.
class PlanMemoryTest : public PlanFixture {
 protected:
  void SetUp() override {
    PlanFixture::SetUp();
    profile_ = proto::ParseProfile(ReadAll(kProfilePath), kProfilePath).value();
    profile_.request_bytes_per_s = 0;
    profile_.workers = {{"gpu16", 1024, 1.0}, {"gpu80", 1024, 1.0}};
    catalog_.provider = "test";
    catalog_.region = "here";
    catalog_.as_of = "2026-01-01";
    catalog_.source = "made up";
    catalog_.types = {
        SizedType("gpu16", 0.5, 256, 16),
        SizedType("gpu80", 2, 256, 80),
        SizedType("small", 0.05, 4, 0),
        SizedType("big", 1, 256, 0)};
  }

  void SetSize(double bytes) {
    profile_.parameter_bytes = profile_.push_bytes = profile_.pull_bytes = bytes;
  }

  int RunCommand(const std::string& command, std::vector<std::string> more) {
    const std::string profile = root_ / "profile.json";
    const std::string catalog = root_ / "catalog.json";
    EXPECT_TRUE(WriteFileAtomically(profile, proto::PrintProfile(profile_)).ok());
    EXPECT_TRUE(WriteFileAtomically(catalog, proto::PrintCatalog(catalog_)).ok());
    std::vector<std::string> all = {command, "--profile", profile, "--catalog", catalog};
    all.insert(all.end(), more.begin(), more.end());
    return Run(all);
  }

  proto::Plan PlanOf(std::vector<std::string> more) {
    more.emplace_back("--json");
    EXPECT_EQ(RunCommand("plan", more), 0) << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status() << out_;
    return plan.ok() ? *plan : proto::Plan();
  }

  /// A small gpt of SGD without momentum, in a file; the profile and its machines are of it.
  std::string GptJob(const std::string& name, const std::string& train) {
    std::filesystem::create_directory(root_ / "data");
    EXPECT_TRUE(WriteFileAtomically(root_ / "data/a.txt", std::string(5000, 'x')).ok());
    const std::string path = root_ / name;
    EXPECT_TRUE(WriteFileAtomically(
                    path,
                    R"({"name": "a", "data": {"directory": ")" + (root_ / "data") +
                        R"(", "format": "text", "context": 64, "vocabulary": 128},
                   "model": {"name": "gpt", "depth": 2, "heads": 4, "width": 256},
                   "optimizer": {"kind": "sgd"}, "workers": [{"count": 1}], "train": {)" +
                        train + "}}")
                    .ok());
    const auto config = proto::LoadJobConfig(path, {});
    EXPECT_TRUE(config.ok()) << config.status();
    const auto parts = run::LoadParts(*config, path);
    EXPECT_TRUE(parts.ok()) << parts.status();
    profile_.model_fingerprint = provisioner::ModelFingerprint(parts->model.tensors);
    SetSize(static_cast<double>(parts->model.parameter_count()) * sizeof(float));
    profile_.workers = {{"gpu16", 8, 0.1}};
    return path;
  }

  proto::JobProfile profile_;
  proto::Catalog catalog_;
};

// Before, 40 GB went to one server of 4 GiB and to devices of 16 GiB, as the best of all fleets.
TEST_F(PlanMemoryTest, FortyGigabytesAreRefusedByMachinesOfFourGibibytes) {
  SetSize(40e9);
  EXPECT_EQ(RunCommand("plan", {"--loss", "0.8"}), run::kExitFailed);
  EXPECT_THAT(
      err_,
      AllOf(
          HasSubstr("nothing on offer has the memory for the job: left out as workers"),
          HasSubstr("gpu16 (parameters and gradients alone take 74.5 GiB of each device, where "
                    "14.4 GiB may be used)"),
          HasSubstr("small (4.9 GiB of each of 8 hosts, where 3.6 GiB may be used)")));
  catalog_.types[1].device_memory_gib = 96;
  const proto::Plan plan = PlanOf({"--loss", "0.8"});
  EXPECT_EQ(plan.servers.instance_type, "big");
  EXPECT_EQ(RunCommand("plan", {"--loss", "0.8", "--servers", "small=1..8"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("or more servers (--servers TYPE=HOSTS)"));
}

TEST_F(PlanMemoryTest, EveryStrategyLeavesOutWhatIsTooSmall) {
  SetSize(20e9);
  for (const std::string_view strategy : provisioner::StrategyNames()) {
    const proto::Plan plan = PlanOf({"--loss", "0.8", "--strategy", std::string(strategy)});
    for (const proto::PlanWorkers& workers : plan.workers) {
      EXPECT_EQ(workers.instance_type, "gpu80") << strategy;
    }
    EXPECT_TRUE(plan.servers.instance_type == "big" || plan.servers.count >= 6) << strategy;
    EXPECT_THAT(plan.notes, Contains(HasSubstr("left out as workers, since the job does not fit")))
        << strategy;
    for (const proto::PlanAlternative& other : plan.alternatives) {
      EXPECT_EQ(other.workers.front().instance_type, "gpu80") << strategy << ", " << other.kind;
    }
    for (const proto::PlanGain& gain : plan.gains) {
      EXPECT_THAT(gain.change, Not(HasSubstr("gpu16"))) << strategy;
    }
  }
}

TEST_F(PlanMemoryTest, EveryObjectiveDoes) {
  SetSize(20e9);
  const std::vector<std::vector<std::string>> objectives = {
      {"--loss", "0.8", "--objective", "time"},
      {"--objective", "throughput-per-hour", "--price-per-hour", "9"},
      {"--loss", "0.8", "--lifetimes", "V100@us-central1"}};
  for (const std::vector<std::string>& flags : objectives) {
    const proto::Plan plan = PlanOf(flags);
    EXPECT_EQ(plan.workers.front().instance_type, "gpu80") << flags.back();
    EXPECT_TRUE(plan.servers.instance_type == "big" || plan.servers.count >= 6) << flags.back();
  }
}

TEST_F(PlanMemoryTest, TheFewestServersThatHoldTheJobAreSaidToBe) {
  SetSize(20e9);
  const proto::Plan plan = PlanOf({"--loss", "0.8", "--servers", "small=1..8"});
  EXPECT_EQ(plan.servers.count, 6);
  EXPECT_THAT(
      plan.notes,
      AllOf(
          Contains(HasSubstr("fewer than 6 small do not hold the job: each would need 4.0 GiB")),
          Contains(HasSubstr("of the servers' memory the parameters alone were counted"))));
}

TEST_F(PlanMemoryTest, WhereNoFleetIsInTimeItSaysWhatWasLeftOut) {
  SetSize(20e9);
  EXPECT_EQ(RunCommand("plan", {"--loss", "0.8", "--within", "1s"}), run::kExitFailed);
  EXPECT_THAT(
      err_,
      AllOf(HasSubstr("no fleet meets the goal: time"), HasSubstr("left out as workers, since")));
}

TEST_F(PlanMemoryTest, PredictionsAndSimulationsAreRefused) {
  SetSize(20e9);
  EXPECT_EQ(
      RunCommand("predict", {"--fleet", "gpu16=1,gpu80=1", "--ps", "big=1"}), run::kExitFailed);
  EXPECT_THAT(
      err_, HasSubstr("--fleet: no worker of the job fits gpu16: parameters and gradients"));
  EXPECT_EQ(RunCommand("predict", {"--fleet", "gpu80=1", "--ps", "small=1"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("left out as servers"));
  EXPECT_EQ(RunCommand("predict", {"--fleet", "gpu80=1", "--ps", "big=1"}), 0) << err_;
  for (const char* const policy : {"reactive", "parcae", "hold"}) {
    EXPECT_NE(
        RunCommand(
            "simulate",
            {"--trace",
             "tests/data/parcae/p3.csv",
             "--type",
             "gpu16",
             "--ps",
             "big=1",
             "--nodes",
             "4",
             "--policy",
             policy}),
        0)
        << policy;
    EXPECT_THAT(err_, HasSubstr("nothing on offer has the memory")) << policy;
  }
  EXPECT_NE(
      RunCommand(
          "plan",
          {"--strategy",
           "parcae",
           "--history",
           "3,3,3,3",
           "--types",
           "gpu16",
           "--servers",
           "big=1"}),
      0);
  EXPECT_THAT(err_, HasSubstr("nothing on offer has the memory"));
}

TEST_F(PlanMemoryTest, RoundsNeedRoomForEachWorkersGradient) {
  SetSize(1e9);
  profile_.server_bytes = 4e9;
  profile_.server_bytes_per_worker = 1e9;
  profile_.workers.pop_back();
  catalog_.types[2].memory_gib = 8;  // 7.2 usable: 7.46e9 bytes beside the process
  catalog_.types.pop_back();
  const std::vector<std::string> fast = {"--loss", "0.8", "--objective", "time"};
  std::vector<std::string> one_host = fast;
  one_host.insert(one_host.end(), {"--servers", "small=1"});
  EXPECT_EQ(PlanOf(one_host).workers.front().count, 3);
  for (const proto::PlanGain& gain :
       PlanOf({"--loss", "0.8", "--servers", "small=1", "--types", "gpu16", "--quota", "gpu16=3"})
           .gains) {
    EXPECT_NE(gain.seconds, 0) << gain.change;
  }
  EXPECT_EQ(RunCommand("predict", {"--fleet", "gpu16=4", "--ps", "small=1"}), run::kExitFailed);
  EXPECT_THAT(
      err_,
      HasSubstr("1 small have memory for 3 workers, not for 4: each would need 7.7 GiB, and 7.2 "
                "GiB may be used; take more servers, or a type with more memory"));
  EXPECT_EQ(RunCommand("predict", {"--fleet", "gpu16=4", "--ps", "small=2"}), 0) << err_;
}

TEST_F(PlanMemoryTest, MemoryThatTheCatalogDoesNotSayIsNamed) {
  SetSize(1e9);
  catalog_.types[0].memory_gib = 0;
  catalog_.types[2].memory_gib = 0;
  catalog_.types.pop_back();
  EXPECT_THAT(
      PlanOf({"--loss", "0.8"}).notes,
      Contains(HasSubstr("the catalog does not say the main memory of gpu16, small")));
}

/// A job file says what the profile does not: activations, optimizer state and copies.
TEST_F(PlanMemoryTest, TheJobSaysWhatItsModelTakes) {
  std::filesystem::create_directory(root_ / "data");
  ASSERT_TRUE(WriteFileAtomically(root_ / "data/a.txt", std::string(5000, 'x')).ok());
  const std::string path = root_ / "job.json";
  ASSERT_TRUE(
      WriteFileAtomically(
          path,
          R"({"name": "a", "data": {"directory": ")" + (root_ / "data") + R"(", "format": "text",
              "context": 64, "vocabulary": 128},
              "model": {"name": "gpt", "depth": 2, "heads": 4, "width": 256},
              "optimizer": {"kind": "adam"}, "train": {"minibatch": 8},
              "workers": [{"count": 1}]})")
          .ok());
  const auto config = proto::LoadJobConfig(path, {});
  ASSERT_TRUE(config.ok()) << config.status();
  const auto parts = run::LoadParts(*config, path);
  ASSERT_TRUE(parts.ok()) << parts.status();
  profile_.model_fingerprint = provisioner::ModelFingerprint(parts->model.tensors);
  const double parameters = static_cast<double>(parts->model.parameter_count()) * sizeof(float);
  SetSize(parameters);
  profile_.workers = {{"gpu16", 8, 0.1}, {"gpu80", 64, 0.1}};
  // With the two moments of adam, once more for checkpoints: six times the parameters.
  catalog_.types[2].memory_gib = (0.25 + 4 * parameters / kGibBytes) / 0.9;
  catalog_.types.pop_back();
  EXPECT_EQ(PlanOf({"--loss", "0.8"}).servers.count, 1);
  const proto::Plan plan = PlanOf({path, "--loss", "0.8"});
  EXPECT_EQ(plan.servers.count, 2);
  EXPECT_THAT(plan.notes, Contains(HasSubstr("fewer than 2 small do not hold the job")));
  EXPECT_THAT(plan.notes, Not(Contains(HasSubstr("alone were counted"))));
  // Activations of 64 samples do not fit where those of 8 do.
  catalog_.types[1].device_memory_gib = 0.3;
  catalog_.types[0].device_memory_gib = 0.3;
  EXPECT_THAT(PlanOf({path, "--loss", "0.8"}).notes, Contains(HasSubstr("gpu80 (")));
  catalog_.types[0].device_memory_gib = 0.001;
  EXPECT_EQ(RunCommand("plan", {path, "--loss", "0.8"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("gpu16 (46.9 MiB of each device, where 943.7 KiB may be used)"));
}

// The servers of local steps apply pushes by the outer rule, which keeps values of its own.
TEST_F(PlanMemoryTest, ServersHoldWhatTheExchangeThatIsPlannedForTakes) {
  const std::string single = GptJob("single.json", R"("minibatch": 8)");
  const std::string several = GptJob("several.json", R"("minibatch": 8, "local_steps": 50)");
  // With checkpoints twice the parameters, and not twice the outer rule's values beside them.
  catalog_.types[2].memory_gib = (0.25 + 2.5 * profile_.parameter_bytes / kGibBytes) / 0.9;
  catalog_.types.pop_back();
  profile_.penalties = {{.local_steps = 50, .mode = "async", .samples = 1}};
  profile_.request_bytes_per_s = 20e6 / 8;
  const std::vector<std::string> goal = {"--loss", "0.8", "--types", "gpu16"};
  const auto hosts_of = [&](std::vector<std::string> more) {
    more.insert(more.end(), goal.begin(), goal.end());
    return PlanOf(more).servers.count;
  };
  EXPECT_EQ(hosts_of({single}), 1);
  const int needed = hosts_of({several});
  EXPECT_GT(needed, 1);
  EXPECT_EQ(hosts_of({single, "--local-steps", "50"}), needed);
  EXPECT_EQ(hosts_of({single, "--local-steps-max", "50"}), needed);
  EXPECT_EQ(hosts_of({several, "--local-steps", "1"}), 1);
}

TEST_F(PlanMemoryTest, NoMoreLocalStepsAreChosenThanAStepHasRoomFor) {
  const std::string path = GptJob("large.json", R"("minibatch": 4096)");
  profile_.workers = {{"gpu80", 4096, 0.1}};
  profile_.penalties = {{.local_steps = 10'000, .mode = "async", .samples = 1}};
  profile_.request_bytes_per_s = 1e5;
  const proto::Plan plan = PlanOf({path, "--loss", "0.8", "--local-steps-max", "10000"});
  EXPECT_GT(plan.local_steps, 1);
  EXPECT_LE(plan.local_steps, 4096) << "16,777,216 samples a step";
  EXPECT_EQ(RunCommand("plan", {path, "--loss", "0.8", "--local-steps", "5000"}), 2);
  EXPECT_THAT(err_, HasSubstr("5000 local steps of 4096 samples are more than 16777216"));
}

}  // namespace
}  // namespace ps::psctl
