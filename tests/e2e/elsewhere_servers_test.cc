// Servers over ssh and as jobs of Slurm, and a coordinator that is a job itself: whole runs that
// are encrypted, one of whose servers is taken away.

#include "tests/e2e/support/elsewhere.h"

namespace ps::e2e {
namespace {

class ElsewhereServersTest : public ElsewhereTest {
 protected:
  /// Servers and, if it runs in a job, the coordinator in the partition that stays; workers in the
  /// one that is taken back.
  void UsePartitions() {
    UseSlurm();
    job_.Set("servers", R"({"launcher": "slurm", "sbatch": "--partition=ondemand"})");
  }

  /// Pids of the servers' processes when all are ready; empty until then.
  static std::vector<int64_t> Ready(const proto::JobStatus& status) {
    std::vector<int64_t> pids;
    for (const proto::ShardRow& shard : status.shards) {
      if (shard.state != proto::ShardRowState::kReady) {
        return {};
      }
      pids.push_back(shard.pid);
    }
    return pids;
  }

  /// Of the one server, once another process than `old_pid` is it.
  static int64_t AwaitServer(TrainRun* run, int64_t old_pid) {
    int64_t pid = 0;
    EXPECT_TRUE(run->WaitFor([&](const proto::JobStatus& status) {
      const std::vector<int64_t> pids = Ready(status);
      pid = pids.empty() ? 0 : pids.front();
      return pid != 0 && pid != old_pid;
    }));
    return pid;
  }
};

TEST_F(ElsewhereServersTest, AServerWhoseSshConnectionIsKilledIsReplacedOnAnotherHost) {
  Open("sshd.sh");
  if (IsSkipped()) {
    return;
  }
  job_.Set(
          "servers",
          R"({"launcher": "ssh", "hosts": [{"host": "127.0.0.1"},)"
          R"( {"host": "localhost", "slots": 2}]})")
      .Set("launch", fmt::format(R"({{"ssh_config": "{}"}})", place_folder_ / "ssh_config"))
      .Set("checkpoint", R"({"every_s": 0.5})");
  TrainRun run(job_, options_);
  AwaitWorker(&run);
  const int64_t server = AwaitServer(&run, 0);
  const pid_t sshd = SshdOf(server);
  ASSERT_GT(sshd, 0) << server;
  ::kill(sshd, SIGKILL);
  EXPECT_NE(AwaitServer(&run, server), 0);
  EXPECT_EQ(::kill(static_cast<pid_t>(server), 0), -1);
  Process::Options scale;
  scale.program = "psctl";
  scale.arguments = {"scale", run.Root(), "servers=2", "--wait"};
  scale.output_stem = folder_ / "scale";
  EXPECT_EQ(RunToEnd(scale, kRunPatience).end, ProcessEnd{});
  scale.arguments[2] = "servers=4";
  scale.arguments.pop_back();
  EXPECT_THAT(
      RunToEnd(scale, kRunPatience).err,
      testing::HasSubstr("that would be 4 servers, and servers.hosts has 3 slots"));
  StopCleanly(&run);
  EXPECT_THAT(run.psctl().Err(), testing::HasSubstr("server 0 was lost: ps_agent: 127.0.0.1: "));
}

TEST_F(ElsewhereServersTest, AWorkerIsPreemptedAndTheServersJobIsCancelled) {
  Open("slurm.sh");
  if (IsSkipped()) {
    return;
  }
  UsePartitions();
  job_.Set("checkpoint", R"({"every_s": 0.5})");
  TrainRun run(job_, options_);
  AwaitWorker(&run);
  const int64_t server = AwaitServer(&run, 0);
  EXPECT_THAT(
      Shell(folder_, "squeue --noheader --format='%P %j' | sort"),
      testing::MatchesRegex("ondemand e2e-[0-9]+-server0-[0-9]+\nspot e2e-[0-9-]+worker0-[0-9]+\n"
                            "spot e2e-[0-9-]+worker1-[0-9]+\n"));
  const std::string urgent = Shell(
      folder_,
      "sbatch --parsable --partition=ondemand --nodes=2 --output=/dev/null --wrap='sleep 100'");
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    return status.revocations_noticed == 1 && Alive(status).size() == 1;
  }));
  Shell(folder_, "scancel " + urgent);
  Shell(
      folder_, "squeue --noheader --format='%i %j' | awk '/-server0-/ {print $1}' | xargs scancel");
  EXPECT_NE(AwaitServer(&run, server), 0);
  EXPECT_EQ(Psctl({"stop", run.Root()}).end, ProcessEnd{});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectNothingLeft();
  const Json summary = run.Summary();
  ExpectConsistentLedger(summary);
  EXPECT_EQ(summary["revocations_noticed"].number(), 1);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 0);
  EXPECT_THAT(
      run.psctl().Err(), testing::HasSubstr("server shard 0 has a notice: a checkpoint is made"))
      << "SIGTERM of its job is the server's notice";
}

/// As docs/machines.md has it.
TEST_F(ElsewhereServersTest, TheCoordinatorIsAJobOfThePartitionThatStays) {
  Open("slurm.sh");
  if (IsSkipped()) {
    return;
  }
  UsePartitions();
  const std::string script = folder_ / "train.sh";
  WriteText(script, "#!/bin/sh\nexec " + ProgramPath("psctl") + " \"$@\"\n");
  options_.before = {
      "/usr/bin/env",
      "sbatch",
      "--wait",
      "--partition=ondemand",
      "--job-name=coordinator",
      "--output=" + folder_ / "psctl.log",
      script};
  TrainRun run(job_, options_);
  AwaitWorker(&run);
  EXPECT_THAT(
      Shell(folder_, "squeue --noheader --format='%P %j'"),
      testing::AllOf(
          testing::HasSubstr("ondemand coordinator\n"), testing::HasSubstr("-server0-")));
  const std::string psctl =
      "srun --overlap --jobid=$(squeue --noheader --name=coordinator --format=%i) " +
      ProgramPath("psctl");
  EXPECT_THAT(Shell(folder_, psctl + " status " + run.Root()), testing::HasSubstr("training"));
  // The end of the job may come before the command has heard of the end of the run.
  Shell(folder_, psctl + " stop " + run.Root() + " || true");
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectNothingLeft();
  EXPECT_EQ(run.Summary()["state"].text(), "stopped");
  ExpectConsistentLedger(run.Summary());
}

}  // namespace
}  // namespace ps::e2e
