// Policies of a fleet with real processes: what a replay does beside its simulation, and a deadline
// that is met although spot machines go.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::HasSubstr;

class PolicyTest : public E2eTest {
 protected:
  /// "0:9 1:10 3:12": the fleets by the minute from which on they are wanted.
  static std::string FleetsOf(const Json& fleets) {
    std::string text;
    for (size_t i = 0; i < fleets.size(); ++i) {
      text += (i == 0 ? "" : " ") + std::to_string(std::lround(fleets[i]["at_s"].number() / 60)) +
              ":" + std::to_string(std::lround(fleets[i]["spot"].number()));
    }
    return text;
  }

  /// The first `hours` of p3.csv, scaled to 16 machines, 120 times as fast.
  Json Replay(const std::string& policy, int workers_max, const std::string& hours) {
    job_.SetData(4000, 1000)
        .Set("servers", R"({"count": 1})")
        .Set("train", R"({"epochs": 10000, "minibatch": 8, "evaluate_every_epochs": 0})")
        .Set("workers", R"([{"count": 1, "type": "spot", "step_ms": 400}])")
        .Set(
            "provisioner",
            R"({"interval_s": 60, "start_s": 36, "workers_max": )" + std::to_string(workers_max) +
                "}");
    job_.Write();
    const Output output = RunToEnd(
        {.program = "psctl",
         .arguments =
             {"replay",
              std::filesystem::absolute("tests/data/parcae/p3.csv").string(),
              job_.path(),
              "--hours",
              hours,
              "--nodes",
              "16",
              "--speedup",
              "120",
              "--policy",
              policy,
              "--notice",
              "none",
              "--json"},
         .directory = job_.folder(),
         .output_stem = job_.folder() + "/replay"},
        kRunPatience);
    EXPECT_EQ(output.end, ProcessEnd{}) << output.err;
    const auto replay = Json::Parse(output.out);
    EXPECT_TRUE(replay.has_value()) << output.out;
    return replay.value_or(Json());
  }

  /// The same fleets were wanted from the same minutes on, and every sample was counted once.
  void ExpectFleetsAsSimulated(const Json& replay, const std::string& fleets) {
    const Json& simulated = replay["simulated"];
    EXPECT_EQ(FleetsOf(replay["fleets"]), fleets);
    EXPECT_EQ(FleetsOf(replay["fleets"]), FleetsOf(simulated["fleets"]));
    const std::filesystem::directory_iterator runs(job_.runs());
    const auto summary = Json::Parse(ReadText(runs->path().string() + "/summary.json"));
    ASSERT_TRUE(summary.has_value());
    ExpectConsistentLedger(*summary);
  }
};

/// The fleets are those of the trace with the minutes of its changes: the policy takes all that
/// there are, since changes are cheap to a parameter server.
TEST_F(PolicyTest, AReplayOfARecordedHourDoesWhatItsSimulationDoes) {
  const Json replay = Replay("parcae", 16, "1");
  ExpectFleetsAsSimulated(
      replay, "0:9 1:10 3:12 6:13 7:14 11:15 24:16 34:14 43:16 51:13 53:12 54:11 57:9 59:8");
  EXPECT_NEAR(replay["samples"].number() / replay["simulated"]["samples"].number(), 1, 0.03);
}

/// It wants 10 workers and a spare one, of up to 13 machines. Samples are compared over the whole
/// hour above.
TEST_F(PolicyTest, AReplayWithSparesWantsTheFleetsOfItsSimulation) {
  ExpectFleetsAsSimulated(Replay("standby", 10, "0.15"), "0:9 1:10 3:11");
}

/// Spot machines can't be had any more once the first ones have gone.
TEST_F(PolicyTest, ADeadlineIsMetOnDemandWhenSpotMachinesGoForGood) {
  constexpr double kWithinS = 30;
  const std::string script = job_.folder() + "/launcher";
  WriteText(
      script,
      "#!/bin/sh\nrole=$1 index=$2; shift 2\n"
      "if [ $role = worker ] && [ $index -lt 2 ] && [ -e $0.none ]; then\n"
      "  echo no capacity >&2; exit 1\nfi\nexec \"$@\"\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  job_.SetData(4000, 1000)
      .Set("launch", R"({"prefix": ")" + script + R"( {role} {index}"})")
      .Set("servers", R"({"count": 1})")
      .Set("train", R"({"epochs": 8, "minibatch": 32, "evaluate_every_epochs": 0})")
      .Set(
          "workers",
          R"([{"count": 2, "type": "spot", "step_ms": 20, "usd_per_hour": 1},)"
          R"( {"count": 0, "type": "sure", "step_ms": 20, "usd_per_hour": 3}])")
      .Set("fleet", R"({"max_detect_s": 2})")
      .Set(
          "provisioner",
          R"({"policy": "deadline", "type": "spot", "on_demand_type": "sure", "workers_max": 2,)"
          R"( "interval_s": 1, "start_s": 2, "within_s": 30})");
  TrainRun run(job_, {.is_replacing = true});
  const auto training = run.WaitForSamples(2000);
  ASSERT_TRUE(training.has_value());
  WriteText(script + ".none", "");
  for (const proto::WorkerRow& row : Alive(*training)) {
    EXPECT_EQ(row.type, "spot");
    ::kill(static_cast<pid_t>(row.pid), SIGKILL);
  }
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& s) { return CountOf(s, "sure") == 2; }));
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectExactLedger();
  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "done");
  EXPECT_LE(summary["elapsed_s"].number(), kWithinS);
  const std::string told = Psctl({"events", run.Root()}).out;
  EXPECT_THAT(
      told,
      testing::AnyOf(
          HasSubstr("and 2 on demand instead of 1 spot, 0 can be had: progress is behind or was, "
                    "and spot machines are missing; all have to be on demand in "),
          HasSubstr("deadline wants 2 on demand instead of 1 spot, 0 can be had: machines on "
                    "demand alone can meet the deadline surely from now on")));
  run.ExpectNothingLeft();
}

}  // namespace
}  // namespace ps::e2e
