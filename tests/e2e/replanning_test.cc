// A run with a goal is planned anew while it trains, for each of the causes that there are.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::HasSubstr;

class ReplanningTest : public E2eTest {
 protected:
  /// Two types of the same speed, which is a quarter of what the profile says.
  ReplanningTest() {
    WriteText(
        job_.folder() + "/profile.json",
        R"({"job": "small", "parameter_bytes": 100000, "workers": [
             {"instance_type": "fast", "minibatch": 32, "compute_s": 0.01},
             {"instance_type": "cheap", "minibatch": 32, "compute_s": 0.01}],
           "curves": {"steps": 100, "power": 1, "floor": 0, "minibatch": 32, "residual": 0.1,
             "samples": 1, "loss_min": 0.01, "fleets": [{"workers": 1, "factor": 1}]}})");
    WriteCatalog("10", "1");
    // A worker's batches by its speed, rates by staleness: the ledger is exact all the same.
    job_.SetData(4000, 1000)
        .Set("servers", R"({"count": 1})")
        .Set(
            "train",
            R"({"epochs": 10000, "minibatch": 32, "batch_policy": "by_speed",)"
            R"( "lr_policy": "staleness", "evaluate_every_epochs": 0})")
        .Set(
            "workers",
            R"([{"count": 2, "type": "fast", "step_ms": 40},)"
            R"( {"count": 0, "type": "cheap", "step_ms": 40}])")
        .Set("fleet", R"({"max_detect_s": 2})")
        .Set(
            "goal",
            R"({"loss": 0.01, "takeover_s": 1, "change_every_s": 1, "profile": ")" + job_.folder() +
                R"(/profile.json", "catalog": ")" + CatalogPath() + R"("})");
  }

  std::string CatalogPath() const { return job_.folder() + "/catalog.json"; }

  void WriteCatalog(const std::string& fast_usd, const std::string& cheap_usd) const {
    const auto type = [](const std::string& name, const std::string& usd, const char* is_server) {
      return R"({"name": ")" + name + R"(", "device": "cpu", "vcpus": 1, "memory_gib": 1,
        "network_gbit_per_s": 10, "network_burst_gbit_per_s": 10, "quota": 2,
        "on_demand_usd_per_hour": )" +
             usd + R"(, "spot": [{"zone": "here", "usd_per_hour": )" + usd +
             R"(, "as_of": "2026-11-21"}], "is_server_host": )" + is_server + "}";
    };
    WriteText(
        CatalogPath(),
        R"({"provider": "nobody", "region": "here", "as_of": "2026-11-21", "source": "made up",
            "types": [)" +
            type("host", "0.1", "true") + "," + type("fast", fast_usd, "false") + "," +
            type("cheap", cheap_usd, "false") + "]}");
  }

  static bool WaitForFleet(TrainRun* run, size_t fast, size_t cheap) {
    return run
        ->WaitFor([&](const proto::JobStatus& status) {
          return CountOf(status, "fast") == fast && CountOf(status, "cheap") == cheap;
        })
        .has_value();
  }

  /// Until a plan was made for such a reason, and came to that.
  static bool WaitForPlan(const TrainRun& run, const std::string& why) {
    return WaitUntil(
        [&] { return Contains(ReadText(run.Root() + "/logs/coordinator.log"), " why=\"" + why); },
        kRunPatience);
  }

  void ExpectThatQuestionsChangeNothing(const TrainRun& run) {
    for (const char* change : {"fast=2", "servers=2"}) {
      const Output preview = Psctl({"scale", run.Root(), change, "--dry-run"});
      EXPECT_EQ(preview.end, ProcessEnd{}) << preview.err;
      EXPECT_THAT(preview.out, HasSubstr("nothing was changed"));
    }
    const auto status = run.Status();
    EXPECT_TRUE(status.has_value() && status->servers.wanted == 1 && status->servers.moves == 0);
    const Output planned = Psctl({"plan", "--run", run.Root()});
    EXPECT_EQ(planned.end, ProcessEnd{}) << planned.err;
    EXPECT_THAT(planned.out, HasSubstr("cheap"));
  }
};

TEST_F(ReplanningTest, TheFleetFollowsLossesPricesPeopleAndSpeed) {
  TrainRun run(job_, {.is_replacing = true});
  EXPECT_TRUE(WaitForPlan(run, "the run has begun: 1 cheap instead of 2 fast meets the goal"));
  EXPECT_TRUE(WaitForFleet(&run, 0, 1));
  // Of the fleet that the first plan has chosen, with no other question in between.
  EXPECT_TRUE(WaitForPlan(run, "the speed is not as predicted: 1 cheap is still the cheapest"));
  ExpectThatQuestionsChangeNothing(run);

  const auto before = run.Status();
  ASSERT_TRUE(before.has_value() && !Alive(*before).empty());
  const int64_t victim = Alive(*before).front().pid;
  ASSERT_EQ(::kill(static_cast<pid_t>(victim), SIGKILL), 0);
  EXPECT_TRUE(WaitForPlan(run, "workers were revoked: 1 cheap is still the cheapest"));
  EXPECT_TRUE(WaitForFleet(&run, 0, 1)) << "it is replaced";

  WriteCatalog("1", "10");
  EXPECT_TRUE(WaitForPlan(run, "the catalog has changed: 1 fast instead of 1 cheap"));
  EXPECT_TRUE(WaitForFleet(&run, 1, 0));

  const Output scaled = Psctl({"scale", run.Root(), "fast=0,cheap=1"});
  EXPECT_EQ(scaled.end, ProcessEnd{}) << scaled.err;
  EXPECT_TRUE(WaitForPlan(run, "another fleet is wanted: 1 fast instead of 1 cheap"));
  EXPECT_TRUE(WaitForFleet(&run, 1, 0));
  const std::string events = Psctl({"events", run.Root()}).out;
  EXPECT_THAT(events, HasSubstr("1 workers wanted, 2 before; asked by plan"));
  EXPECT_THAT(events, HasSubstr("asked by psctl"));

  EXPECT_EQ(Psctl({"stop", run.Root()}).end, ProcessEnd{});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectNothingLeft();
  ExpectConsistentLedger(run.Summary());
}

}  // namespace
}  // namespace ps::e2e
