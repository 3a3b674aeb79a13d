// A fleet that people and losses change while it trains.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

class ScaleTest : public E2eTest {
 protected:
  ScaleTest() {
    job_.SetData(4000, 1000)
        .SetEndless()
        .Set("servers", R"({"count": 2})")
        .Set(
            "workers",
            R"([{"count": 2, "type": "fast", "step_ms": 20},)"
            R"( {"count": 1, "type": "slow", "step_ms": 60}])")
        .Set("fleet", R"({"max_detect_s": 2})");
    options_.is_replacing = true;
  }

  TrainRun::Options options_;
};

// Without workers the servers end, too.
TEST_F(ScaleTest, AFleetGrowsShrinksToNothingAndComesBack) {
  job_.Set("fleet", R"({"max_detect_s": 2, "park_servers_after_s": 1})");
  TrainRun run(job_, options_);
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& s) { return s.samples_counted > 0; }));
  const Output more = Psctl({"scale", run.Root(), "fast+=2,slow=0", "--wait"});
  EXPECT_EQ(more.end, ProcessEnd{}) << more.err;
  EXPECT_NE(more.out.find("fast: 4 wanted, 4 take part"), std::string::npos) << more.out;
  EXPECT_NE(more.out.find("slow: 0 wanted, 0 take part"), std::string::npos) << more.out;
  const Output drained = Psctl({"drain", "0", run.Root()});
  EXPECT_EQ(drained.end, ProcessEnd{}) << drained.err;
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& s) { return CountOf(s, "fast") == 3; }));
  const Output none = Psctl({"scale", run.Root(), "workers=0", "--wait"});
  EXPECT_EQ(none.end, ProcessEnd{}) << none.err;
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& s) {
    return s.state == proto::RunState::kWaiting &&
           std::ranges::all_of(s.shards, [](const proto::ShardRow& row) {
             return row.state == proto::ShardRowState::kParked;
           });
  }));
  EXPECT_TRUE(WaitUntil([&] { return run.Children("ps_server").empty(); }));
  const auto then = run.Status();
  ASSERT_TRUE(then.has_value());
  EXPECT_EQ(Psctl({"scale", run.Root(), "fast=3"}).end, ProcessEnd{});
  EXPECT_TRUE(run.WaitForSamples(then->samples_counted + 512)) << "and trains again";
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(summary["revocations_noticed"].number(), 0);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 0);
  EXPECT_EQ(summary["steps_lost"].number(), 0) << "whoever is let go hands over";
  const std::string events = Psctl({"events", run.Root()}).out;
  EXPECT_TRUE(Contains(events, "4 workers wanted, 3 before; asked by psctl")) << events;
}

class ScaleServersTest : public ScaleTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(ScaleServersTest, ServersBecomeMoreAndFewerAndNoStepIsLost) {
  const std::string mode = GetParam();
  job_.Set("servers", R"({"count": 1})").SetEndless(R"("mode": ")" + mode + R"(")");
  TrainRun run(job_, options_);
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& s) { return s.samples_counted > 0; }));
  const Output more = Psctl({"scale", run.Root(), "servers=2:1:1", "--wait"});
  EXPECT_EQ(more.end, ProcessEnd{}) << more.err;
  EXPECT_NE(
      more.out.find("3 servers wanted with shares 2:1:1, 3 have the parameters"), std::string::npos)
      << more.out;
  const Output fewer = Psctl({"scale", run.Root(), "servers-=1", "--wait"});
  EXPECT_EQ(fewer.end, ProcessEnd{}) << fewer.err;
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(summary["steps_lost"].number(), 0);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 0);
  EXPECT_EQ(summary["joins"].number(), 3) << "nobody leaves for it";
  const std::string events = Psctl({"events", run.Root()}).out;
  EXPECT_TRUE(Contains(events, "3 servers wanted, 1 before; asked by psctl")) << events;
  EXPECT_TRUE(Contains(events, "chunks move, for 2 servers in the end; asked by psctl")) << events;
}

INSTANTIATE_TEST_SUITE_P(Modes, ScaleServersTest, testing::Values("async", "bsp"));

TEST_F(ScaleTest, AJobIsPausedAndChangesItsModeAndNoStepIsLost) {
  TrainRun run(job_, options_);
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& s) { return s.samples_counted > 0; }));
  EXPECT_EQ(Psctl({"pause", run.Root()}).end, ProcessEnd{});
  const auto paused = run.WaitFor([](const proto::JobStatus& s) {
    return s.state == proto::RunState::kPaused && s.detail.starts_with("checkpoint");
  });
  ASSERT_TRUE(paused.has_value());
  const Output rounds = Psctl({"mode", "bsp", run.Root(), "--wait"});
  EXPECT_EQ(rounds.end, ProcessEnd{}) << rounds.err;
  EXPECT_NE(rounds.out.find("trains in mode bsp"), std::string::npos) << rounds.out;
  EXPECT_EQ(run.Status()->samples_counted, paused->samples_counted);
  EXPECT_EQ(Psctl({"continue", run.Root()}).end, ProcessEnd{});
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& s) { return s.round >= 3; }));
  const Output bound = Psctl({"mode", "ssp:2", run.Root(), "--wait"});
  EXPECT_EQ(bound.end, ProcessEnd{}) << bound.err;
  EXPECT_EQ(Psctl({"mode", "sync", run.Root()}).end, ProcessEnd{2});
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(summary["mode"].text(), "ssp:2");
  ASSERT_EQ(summary["mode_switches"].size(), 2U);
  EXPECT_EQ(summary["mode_switches"][0]["to"].text(), "bsp");
  EXPECT_EQ(summary["mode_switches"][0]["samples"].number(), paused->samples_counted);
  EXPECT_EQ(summary["steps_lost"].number(), 0);
  EXPECT_EQ(summary["joins"].number(), 3) << "nobody leaves for it";
}

TEST_F(ScaleTest, ASyncSwitchEndsTheRoundsAtItsShareOfTheSamples) {
  job_.Set(
          "train",
          R"({"epochs": 3, "minibatch": 32, "mode": "bsp", "mode_policy": "sync_switch",)"
          R"( "switch_at": 0.25})")
      .Set("workers", R"([{"count": 2}])");
  TrainRun run(job_, options_);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectNothingLeft();
  run.ExpectExactLedger();
  const Json summary = run.Summary();
  EXPECT_EQ(summary["mode"].text(), "async");
  ASSERT_EQ(summary["mode_switches"].size(), 1U);
  EXPECT_EQ(summary["mode_switches"][0]["to"].text(), "async");
  EXPECT_GE(summary["mode_switches"][0]["samples"].number(), 3000);
  EXPECT_LT(summary["mode_switches"][0]["samples"].number(), 12000);
  EXPECT_GT(summary["test_accuracy"].number(), 0.5);
  const Output events = Psctl({"events", run.Root()});
  EXPECT_NE(events.out.find("async from now on, bsp before"), std::string::npos) << events.out;
}

class ReplayTest : public ScaleTest, public ::testing::WithParamInterface<const char*> {};

/// Several machines go in one instant, as most do, with a word and without.
TEST_P(ReplayTest, TakesAndGivesWorkersAsItsTraceSays) {
  job_.Set("train", R"({"epochs": 10000, "minibatch": 32, "evaluate_every_epochs": 0})")
      .Set("workers", R"([{"count": 3, "step_ms": 20, "usd_per_hour": 1}])")
      .Set("goal", R"({"loss": 0.0001, "within_s": 1, "budget_usd": 1})")
      .Write();
  WriteText(job_.folder() + "/trace.csv", "0,4\n1500,1\n3500,4\n5000,4\n");
  const Output replay = Psctl(
      {"replay",
       job_.folder() + "/trace.csv",
       job_.path(),
       "--speedup",
       "1",
       "--notice",
       GetParam()});
  EXPECT_EQ(replay.end, ProcessEnd{}) << replay.err;
  EXPECT_NE(replay.out.find("revocations   3, "), std::string::npos) << replay.out;
  EXPECT_NE(replay.out.find("replay.svg"), std::string::npos) << replay.out;
  EXPECT_NE(replay.out.find("goal          not met: loss 0.0001 missed by "), std::string::npos)
      << replay.out;
  EXPECT_NE(replay.out.find(" of at most 1.00 s, missed by "), std::string::npos) << replay.out;
  const std::filesystem::directory_iterator runs(job_.runs());
  const auto summary = Json::Parse(ReadText(runs->path().string() + "/summary.json"));
  ASSERT_TRUE(summary.has_value());
  EXPECT_GT((*summary)["samples_counted"].number(), 0);
  EXPECT_GE((*summary)["joins"].number(), 4) << "others may not be there yet when it ends";
  ExpectConsistentLedger(*summary);
}

INSTANTIATE_TEST_SUITE_P(Notice, ReplayTest, testing::Values("none", "30s"), [](const auto& suite) {
  return suite.param == std::string("none") ? "none" : "given";
});

/// The trace has up to three machines, and the policy takes two of them.
TEST_F(ScaleTest, APolicyChoosesAmongTheMachinesOfAReplay) {
  job_.Set("train", R"({"epochs": 10000, "minibatch": 32, "evaluate_every_epochs": 0})")
      .Set("workers", R"([{"count": 1, "type": "spot", "step_ms": 20}])")
      .Set("provisioner", R"({"workers_max": 2, "interval_s": 1, "start_s": 1})")
      .Write();
  WriteText(job_.folder() + "/trace.csv", "0,3\n2500,1\n5000,3\n9000,3\n");
  std::vector<std::string> arguments = {
      "replay",
      job_.folder() + "/trace.csv",
      job_.path(),
      "--speedup",
      "1",
      "--notice",
      "none",
      "--policy",
      "hold"};
  const Output replay = RunToEnd(
      {.program = "psctl",
       .arguments = arguments,
       .directory = job_.folder(),
       .output_stem = job_.folder() + "/replay"},
      kRunPatience);
  EXPECT_EQ(replay.end, ProcessEnd{}) << replay.err;
  EXPECT_NE(replay.out.find("hold, "), std::string::npos) << replay.out;
  EXPECT_NE(replay.out.find("hold keeps 2 spot"), std::string::npos) << replay.out;
  EXPECT_NE(replay.out.find("hold wants 2 spot instead of 1"), std::string::npos) << replay.out;
  EXPECT_NE(replay.out.find("; forecast 2 2 2"), std::string::npos) << replay.out;
  arguments.back() = "oracle";
  const Output oracle = RunToEnd(
      {.program = "psctl",
       .arguments = arguments,
       .directory = job_.folder(),
       .output_stem = job_.folder() + "/oracle"},
      kRunPatience);
  EXPECT_EQ(oracle.end, ProcessEnd{2});
  EXPECT_NE(oracle.err.find("which nobody knows of a run"), std::string::npos) << oracle.err;
}

TEST_F(ScaleTest, APolicyDecidesHowManyWorkersARunHasAndLeavesWhatAPersonAsksFor) {
  job_.Set("train", R"({"epochs": 10000, "minibatch": 32, "evaluate_every_epochs": 0})")
      .Set("workers", R"([{"count": 1, "type": "spot", "step_ms": 20}])")
      .Set(
          "provisioner",
          R"({"policy": "parcae", "workers_max": 3, "interval_s": 1, "start_s": 1})");
  TrainRun run(job_, options_);
  const auto has_workers = [](size_t count) {
    return [count](const proto::JobStatus& s) { return CountOf(s, "spot") == count; };
  };
  EXPECT_TRUE(run.WaitFor(has_workers(3)));
  EXPECT_EQ(Psctl({"scale", run.Root(), "workers=2"}).end, ProcessEnd{});
  EXPECT_TRUE(run.WaitFor(has_workers(2)));
  const auto events = [&] { return Psctl({"events", run.Root()}).out; };
  EXPECT_TRUE(WaitUntil([&] { return Contains(events(), "parcae leaves 2 spot alone for 10m"); }));
  ASSERT_EQ(::kill(static_cast<pid_t>(run.CoordinatorPid()), SIGKILL), 0);
  const auto after = run.WaitFor([](const proto::JobStatus& s) { return s.journal.restarts == 1; });
  ASSERT_TRUE(after.has_value());
  // It looks at the run again, and remembers what it left alone.
  EXPECT_TRUE(
      run.WaitFor([&](const proto::JobStatus& s) { return s.elapsed_s > after->elapsed_s + 3; }));
  EXPECT_TRUE(has_workers(2)(*run.Status()));
  const std::string told = events();
  EXPECT_TRUE(
      Contains(told, "policy      parcae wants 3 spot instead of 1 spot, all that are needed"))
      << told;
  EXPECT_TRUE(Contains(told, "; samples of 2 spot: ")) << told;
  EXPECT_TRUE(Contains(told, "3 workers wanted, 1 before; asked by policy")) << told;
  EXPECT_TRUE(Contains(told, "2 workers wanted, 3 before; asked by psctl")) << told;
  EXPECT_EQ(Psctl({"stop", run.Root()}).end, ProcessEnd{});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectNothingLeft();
}

TEST_F(ScaleTest, LostWorkersAreReplacedAndAtTheirNotice) {
  TrainRun run(job_, options_);
  const auto status = run.WaitFor([](const proto::JobStatus& s) { return s.samples_counted > 0; });
  ASSERT_TRUE(status.has_value());
  const auto slow = std::ranges::find(status->workers, WorkerId(2), &proto::WorkerRow::worker);
  ASSERT_NE(slow, status->workers.end());
  ::kill(static_cast<pid_t>(slow->pid), SIGKILL);
  EXPECT_TRUE(run.WaitFor([&](const proto::JobStatus& s) {
    return std::ranges::any_of(Alive(s), [&](const proto::WorkerRow& row) {
      return row.worker == WorkerId(2) && row.pid != slow->pid;
    });
  })) << "another process in its seat";
  EXPECT_EQ(Psctl({"notice", "1", run.Root(), "--grace", "20s"}).end, ProcessEnd{});
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& s) {
    return s.revocations_noticed == 1 && CountOf(s, "fast") == 2;
  }));
  StopCleanly(&run);
}

}  // namespace
}  // namespace ps::e2e
