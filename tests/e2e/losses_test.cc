// Workers that go, with and without a word, and come back. Nothing may be counted twice or left
// out, and the run goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/e2e/support/train_run.h"
#include "tests/http/server_process.h"

namespace ps::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The text that `psctl COMMAND RUN` prints; a failure of the command is a test failure.
std::string Ask(const std::string& command, const TrainRun& run, const TemporaryFolder& folder) {
  const Output output = RunToEnd(
      {.program = "psctl",
       .arguments = {command, run.Root()},
       .directory = folder.path(),
       .output_stem = folder / command});
  EXPECT_EQ(output.end, ProcessEnd{}) << output.err;
  return output.out;
}

class FaultTest : public E2eTest, public testing::WithParamInterface<std::string> {};

TEST_P(FaultTest, NoticeKillAndAddFromTheConfigAreSurvivedAndCounted) {
  // In the first three of 100,000 epochs, so that who is added has all the time to join.
  job_.SetEndless(R"("mode": ")" + GetParam() + '"')
      .Set("workers", R"([{"count": 2, "step_ms": 20}, {"minibatch": 16, "step_ms": 10}])")
      .Set("faults", R"([{"at": 9e-6, "kind": "notice", "worker": 0, "grace_s": 5},
                         {"at": 18e-6, "kind": "kill", "worker": 1},
                         {"at": 27e-6, "kind": "add", "add": {"count": 2}}])");
  TrainRun run(job_, {.arguments = {"--json"}});
  constexpr uint64_t kEpochsSamples = 4 * 4096;  // enough to have learnt
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    const std::vector<proto::WorkerRow> alive = Alive(status);
    return status.samples_counted >= kEpochsSamples && alive.size() == 3 &&
           std::ranges::all_of(alive, [](const auto& row) { return row.samples_counted > 0; });
  })) << run.psctl().Err();
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(summary["revocations_noticed"].number(), 1);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 1);
  EXPECT_EQ(summary["joins"].number(), 5);
  EXPECT_GT(summary["test_accuracy"].number(), 0.6);
  const Json& first = summary["ledger"][0];
  EXPECT_EQ(first["samples_counted"].number(), first["samples_total"].number());
  EXPECT_THAT(run.psctl().Err(), HasSubstr("worker 0 left on notice"));
  EXPECT_THAT(run.psctl().Err(), HasSubstr("worker 1 lost (no notice)"));
  EXPECT_THAT(run.psctl().Err(), HasSubstr("worker 3 joined"));
}

INSTANTIATE_TEST_SUITE_P(
    Modes, FaultTest, testing::Values("async", "ssp", "bsp"), [](const auto& suite) {
      return suite.param;
    });

class LossTest : public E2eTest {};

TEST_F(LossTest, WithoutWorkersTheRunWaitsSaysSoAndGoesOnWhenOneJoins) {
  job_.SetEndless().Set("workers", R"([{"count": 2, "slowdown": 4}])");
  TrainRun run(job_);
  const auto training = run.WaitForSamples(512);
  ASSERT_TRUE(training.has_value());
  for (const proto::WorkerRow& row : Alive(*training)) {
    ::kill(static_cast<pid_t>(row.pid), SIGKILL);
  }
  const auto waiting = run.WaitFor(
      [](const proto::JobStatus& status) { return status.state == proto::RunState::kWaiting; });
  ASSERT_TRUE(waiting.has_value());
  EXPECT_LT(waiting->samples_counted, waiting->samples_total);
  EXPECT_THAT(Ask("status", run, folder_), HasSubstr("waiting: no worker is left"));
  EXPECT_THAT(Ask("why", run, folder_), HasSubstr("coordinator waits for any worker"));
  EXPECT_TRUE(WaitUntil([&] { return Contains(run.psctl().Err(), "waiting: no worker is left"); }));
  EXPECT_TRUE(run.psctl().IsRunning());

  const auto worker = run.StartWorker();
  EXPECT_TRUE(run.WaitForSamples(waiting->samples_counted + 512));
  EXPECT_TRUE(WaitUntil([&] { return Contains(run.psctl().Err(), "training goes on"); }));
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(worker->Wait(), ProcessEnd{});
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 2);
}

/// Its machine says so late, or somebody looked at an older status.
TEST_F(LossTest, ANoticeAfterDeathIsRefusedInWordsAndTakesNobodyElse) {
  job_.Set("workers", R"([{"count": 3, "slowdown": 4}])").Set("train", R"({"epochs": 10000})");
  TrainRun run(job_);
  const auto training = run.WaitFor(
      [](const proto::JobStatus& s) { return Alive(s).size() == 3 && s.samples_counted > 256; });
  ASSERT_TRUE(training.has_value());
  const proto::WorkerRow victim = Alive(*training)[1];
  ASSERT_EQ(::kill(static_cast<pid_t>(victim.pid), SIGKILL), 0);
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& s) { return s.revocations_unnoticed == 1; }));
  const std::string name = std::to_string(victim.worker.value);
  const Output late = Psctl({"notice", name, run.Root()});
  EXPECT_EQ(late.end, ProcessEnd{1});
  EXPECT_THAT(
      late.err,
      testing::ContainsRegex("worker " + name + " takes part no more \\(.+\\); these take part: "));
  EXPECT_TRUE(run.WaitFor([&](const proto::JobStatus& s) {
    return Alive(s).size() == 2 && s.samples_counted > training->samples_counted + 512;
  })) << "the others train on";
  run.psctl().SignalGroup(SIGINT);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_EQ(summary["revocations_noticed"].number(), 0);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 1);
  ExpectConsistentLedger(summary);
}

/// Of a worker that was started by hand, once it has done something.
std::optional<proto::WorkerRow> RowOf(const proto::JobStatus& status, const Process& worker) {
  const auto rows = Alive(status);
  const auto row = std::ranges::find(rows, worker.pid(), &proto::WorkerRow::pid);
  return row == rows.end() || row->samples_counted == 0 ? std::nullopt : std::optional(*row);
}

/// The metadata services of providers, whose machines go when the test says so.
class ProviderTest : public LossTest {
 protected:
  void SetUp() override {
    LossTest::SetUp();
    ASSERT_NE(metadata_.port(), 0) << metadata_.why();
  }

  std::string UrlOf(const std::string& machine) const {
    return "127.0.0.1:" + std::to_string(metadata_.port()) + "/" + machine;
  }

  std::unique_ptr<Process> StartOn(TrainRun* run, const std::string& machine) const {
    const std::string provider = machine.substr(0, machine.find('-'));
    return run->StartWorker({"--notices", provider, "--metadata-url", UrlOf(machine)});
  }

  /// From now on the machine is what its name says.
  void Begin(const std::string& machine) const { WriteText(machines_ / machine, ""); }

  /// From now on nothing is to come.
  void Calm(const std::string& machine) const { std::filesystem::remove(machines_ / machine); }

 private:
  TemporaryFolder machines_;
  const ServerProcess metadata_{{"python3", "tests/notice/metadata_server.py", machines_.path()}};
};

// By a signal, by a file that an agent of the machine writes, by a person, and by each provider,
// also with as little time as Azure was seen to leave.
TEST_F(ProviderTest, ANoticeToAWorkerOfAnotherLauncherIsADrain) {
  // It does not end before everybody has been told.
  job_.Set("train", R"({"epochs": 10000})").Set("workers", R"([{"count": 2, "slowdown": 4}])");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(512).has_value());
  const std::string notice = folder_ / "notice";
  const auto signalled = run.StartWorker();
  const auto watching = run.StartWorker({"--notice-file", notice});
  const auto told = run.StartWorker();
  std::vector<std::unique_ptr<Process>> all;
  const std::pair<const char*, const char*> machines[] = {
      {"ec2-end", "EC2 spot interruption (terminate)"},
      {"gcp-changes", "Compute Engine preemption"},
      {"azure-end", "Azure event (Preempt)"},
      {"azure-short", "Azure event (Preempt)"}};
  for (const auto& [machine, reason] : machines) {
    all.push_back(StartOn(&run, machine));
  }
  const auto training = run.WaitFor([&](const proto::JobStatus& status) {
    return RowOf(status, *signalled) && RowOf(status, *watching) && RowOf(status, *told) &&
           std::ranges::all_of(all, [&](const auto& w) { return RowOf(status, *w).has_value(); });
  });
  ASSERT_TRUE(training.has_value());
  signalled->Signal(SIGTERM);
  WriteText(notice, "5\n");
  const std::string name = std::to_string(RowOf(*training, *told)->worker.value);
  const Output given = RunToEnd(
      {.program = "psctl",
       .arguments = {"notice", name, run.Root(), "--grace", "5s"},
       .output_stem = folder_ / "notice-command"});
  EXPECT_EQ(given.end, ProcessEnd{}) << given.err;
  EXPECT_THAT(given.out, HasSubstr("worker " + name + " of "));
  for (size_t i = 0; i < all.size(); ++i) {
    Begin(machines[i].first);
  }
  for (const auto* worker : {&signalled, &watching, &told}) {
    EXPECT_EQ((*worker)->Wait(), ProcessEnd{});
  }
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]->Wait(), ProcessEnd{}) << machines[i].first;
    EXPECT_THAT(
        all[i]->Err(), HasSubstr(std::string("notice reason=\"") + machines[i].second + '"'));
  }
  run.psctl().SignalGroup(SIGINT);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_EQ(summary["revocations_noticed"].number(), 7);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 0);
  EXPECT_EQ(summary["steps_lost"].number(), 0);
  ExpectConsistentLedger(summary);
}

TEST_F(ProviderTest, AWorkerTrainsOnThroughADistantEndThatIsWithdrawn) {
  job_.Set("train", R"({"epochs": 10000})").Set("workers", R"([{"count": 1, "slowdown": 4}])");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  const auto worker = StartOn(&run, "azure-withdrawn");
  ASSERT_TRUE(
      run.WaitFor([&](const proto::JobStatus& s) { return RowOf(s, *worker).has_value(); }));
  Begin("azure-withdrawn");
  ASSERT_TRUE(WaitUntil([&] { return Contains(worker->Err(), "event=notice_withdrawn"); }));
  EXPECT_THAT(worker->Err(), HasSubstr("event=notice_ahead what=\"Azure event (Reboot)\""));
  const auto then = run.Status();
  ASSERT_TRUE(then.has_value() && RowOf(*then, *worker).has_value());
  const uint64_t samples = RowOf(*then, *worker)->samples_counted;
  EXPECT_TRUE(run.WaitFor([&](const proto::JobStatus& status) {
    const auto row = RowOf(status, *worker);
    return row && row->samples_counted > samples;
  }));
  run.psctl().SignalGroup(SIGINT);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_EQ(run.Summary()["revocations_noticed"].number(), 0);
  EXPECT_EQ(run.Summary()["revocations_unnoticed"].number(), 0);
}

TEST_F(ProviderTest, AnEventOfAnotherMachineIsNoNoticeAndIsToldToPeople) {
  job_.SetEndless().Set("workers", R"([{"count": 1, "slowdown": 4}])");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  const auto worker = StartOn(&run, "azure-others");
  Begin("azure-others");
  Output events;
  EXPECT_TRUE(WaitUntil([&] {
    events = Psctl({"events", run.Root()});
    return Contains(events.out, "though its provider announces: Azure event (");
  })) << events.out
      << worker->Err();
  const auto status = run.Status();
  EXPECT_TRUE(status.has_value() && RowOf(*status, *worker)) << "it trains on";
  StopCleanly(&run);
}

/// The provider recommends to move from the machine of worker 0, and then does so no more.
TEST_F(ProviderTest, WhereAMachineIsAtRiskOneWorkerMoreIsStartedForAWhile) {
  const std::string script = folder_ / "on_ec2";
  WriteText(
      script,
      "#!/bin/sh\nname=$1; shift\n"
      "[ $name = worker0 ] && set -- \"$@\" --notices ec2 --metadata-url " +
          UrlOf("ec2-unadvised") + "\nexec \"$@\"\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  job_.Set("train", R"({"epochs": 10000})")
      .Set("workers", R"([{"count": 2, "step_ms": 20}])")
      .Set("launch", R"({"prefix": ")" + script + R"( {name}"})");
  Begin("ec2-unadvised");
  TrainRun run(job_, {.is_replacing = true});
  const auto has_workers = [](size_t count) {
    return [count](const proto::JobStatus& status) { return Alive(status).size() == count; };
  };
  EXPECT_TRUE(run.WaitFor(has_workers(3))) << "one more";
  Calm("ec2-unadvised");
  EXPECT_TRUE(run.WaitFor(has_workers(2))) << "the machine stays after all";
  run.psctl().SignalGroup(SIGINT);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_EQ(summary["joins"].number(), 3);
  EXPECT_EQ(summary["revocations_noticed"].number(), 0);
  EXPECT_EQ(summary["steps_lost"].number(), 0);
  EXPECT_THAT(ReadText(run.Root() + "/logs/coordinator.log"), HasSubstr("event=prewarm "));
  ExpectConsistentLedger(summary);
}

/// The machine of server 1 is in a provider's hands, that of server 0 has an agent that writes a
/// file. Those of their successors are calm.
TEST_F(ProviderTest, ANoticeToTheProcessOfAServerIsAHandover) {
  const std::string script = folder_ / "on_machines";
  const std::string notice = folder_ / "notice";
  WriteText(
      script,
      "#!/bin/sh\nname=$1; shift\ncase $name in\n"
      "server0) flags='--notice-file " +
          notice +
          "' ;;\n"
          "server1) flags='--notices ec2 --metadata-url " +
          UrlOf("ec2-end") +
          "' ;;\nesac\n"
          "mkdir " +
          folder_.path() + "/$name.launched || flags=\nexec \"$@\" $flags\n");
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  job_.Set("train", R"({"epochs": 10000})")
      .Set("workers", R"([{"count": 2, "step_ms": 20}])")
      .Set("checkpoint", R"({"every_s": 600})")
      .Set("launch", R"({"prefix": ")" + script + R"( {name}"})");
  TrainRun run(job_);
  auto before = run.WaitForSamples(256);
  ASSERT_TRUE(before.has_value());
  const auto expect_handover = [&](size_t server) {
    const auto after = run.WaitFor([&](const proto::JobStatus& status) {
      return status.shards[server].state == proto::ShardRowState::kReady &&
             status.shards[server].pid != before->shards[server].pid;
    });
    ASSERT_TRUE(after.has_value()) << "server " << server;
    EXPECT_EQ(after->checkpoints.steps_undone, 0U);
    EXPECT_EQ(after->shards[1 - server].pid, before->shards[1 - server].pid);
    before = after;
  };
  Begin("ec2-end");
  expect_handover(1);
  WriteText(notice, "60\n");
  expect_handover(0);
  run.psctl().SignalGroup(SIGINT);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_EQ(summary["steps_lost"].number(), 0);
  ExpectConsistentLedger(summary);
  EXPECT_THAT(
      ReadText(run.Root() + "/logs/server1.log"),
      HasSubstr("notice reason=\"EC2 spot interruption (terminate)\""));
  EXPECT_THAT(
      ReadText(run.Root() + "/logs/coordinator.log"),
      AllOf(
          HasSubstr("event=successor_started server=1"),
          HasSubstr("event=successor_started server=0")));
}

TEST_F(LossTest, AStoppedWorkerIsDeclaredLostFencedAndTakesItsOwnSeatAgain) {
  job_.SetEndless()
      .Set("workers", R"([{"count": 2, "slowdown": 4}, {"slowdown": 4, "minibatch": 16}])")
      .Set("fleet", R"({"max_detect_s": 1})");
  TrainRun run(job_);
  const auto training = run.WaitForSamples(512);
  ASSERT_TRUE(training.has_value());
  const std::vector<proto::WorkerRow> rows = Alive(*training);
  ASSERT_EQ(rows.size(), 3U);
  const proto::WorkerRow victim = rows[2];
  const auto pid = static_cast<pid_t>(victim.pid);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  ASSERT_EQ(::kill(static_cast<pid_t>(rows[0].pid), SIGKILL), 0);  // seat 0 gets vacant, too
  const auto lost = run.WaitFor([&](const proto::JobStatus& status) {
    return std::ranges::any_of(status.workers, [&](const proto::WorkerRow& row) {
      return row.incarnation == victim.incarnation && row.state == proto::WorkerRowState::kLost;
    });
  });
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  ASSERT_TRUE(lost.has_value());
  const auto again = run.WaitFor([&](const proto::JobStatus& status) {
    const auto alive = Alive(status);
    return std::ranges::any_of(alive, [&](const proto::WorkerRow& row) {
      return row.pid == victim.pid && row.incarnation > victim.incarnation &&
             row.worker == victim.worker && row.minibatch == 16 && row.samples_counted > 0;
    });
  });
  EXPECT_TRUE(again.has_value()) << "it does not join again as what it was";
  const Json summary = StopCleanly(&run);
  EXPECT_GE(summary["revocations_unnoticed"].number(), 2);
  double steps = 0;
  for (size_t i = 0; i < summary["workers"].size(); ++i) {
    steps += summary["workers"][i]["steps"].number();
  }
  EXPECT_EQ(steps, summary["steps_counted"].number()) << "a row is of one incarnation";
}

TEST_F(LossTest, AStoppedWorkerHoldsNobodyBackInSsp) {
  // The other one may lead by two steps only; it goes on once the silent one is declared lost.
  job_.SetEndless(R"("mode": "ssp", "staleness_max": 2)")
      .Set("workers", R"([{"count": 2, "slowdown": 4}])")
      .Set("fleet", R"({"max_detect_s": 1})");
  TrainRun run(job_);
  const auto training = run.WaitForSamples(512);
  ASSERT_TRUE(training.has_value());
  const auto pid = static_cast<pid_t>(Alive(*training).front().pid);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  EXPECT_TRUE(run.WaitForSamples(training->samples_counted + 2048));
  StopCleanly(&run);
}

}  // namespace
}  // namespace ps::e2e
