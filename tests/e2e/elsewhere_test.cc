// Workers over ssh and as jobs of Slurm: whole runs that are encrypted, one of whose workers is
// taken away.

#include "tests/e2e/support/elsewhere.h"

namespace ps::e2e {
namespace {

TEST_F(ElsewhereTest, AWorkerWhoseSshConnectionIsKilledIsReplacedOnAnotherHost) {
  Open("sshd.sh");
  if (IsSkipped()) {
    return;
  }
  UseSsh();
  TrainRun run(job_, options_);
  const proto::WorkerRow worker = AwaitWorker(&run);
  ExpectThatAnotherCoordinatorKeepsAll(&run);
  const pid_t sshd = SshdOf(worker.pid);
  ASSERT_GT(sshd, 0) << worker.pid;
  ::kill(sshd, SIGKILL);
  ExpectReplacedAndStop(&run, worker.pid);
  EXPECT_THAT(run.psctl().Err(), testing::HasSubstr("worker 0 lost (no notice)"));
}

TEST_F(ElsewhereTest, AWorkerWhoseSlurmJobIsCancelledIsReplacedByAnotherJob) {
  Open("slurm.sh");
  if (IsSkipped()) {
    return;
  }
  UseSlurm();
  TrainRun run(job_, options_);
  const proto::WorkerRow worker = AwaitWorker(&run);
  const std::string jobs = Shell(folder_, "squeue --noheader --format='%A %j' | sort");
  ExpectThatAnotherCoordinatorKeepsAll(&run);
  EXPECT_EQ(Shell(folder_, "squeue --noheader --format='%A %j' | sort"), jobs) << "none was added";
  Shell(
      folder_, "squeue --noheader --format='%i %j' | awk '/-worker0-/ {print $1}' | xargs scancel");
  ExpectReplacedAndStop(&run, worker.pid);
  EXPECT_TRUE(WaitUntil([&] { return Shell(folder_, "squeue --noheader").empty(); }));
}

/// Somebody whose partition prevails needs the node of one of the two workers.
TEST_F(ElsewhereTest, AWorkerThatSlurmPreemptsLeavesAtItsNoticeAndIsReplaced) {
  Open("slurm.sh");
  if (IsSkipped()) {
    return;
  }
  ::setenv("SLURM_CONF", (place_folder_ / "slurm.conf").c_str(), 1);
  job_.Set("launch", R"({"launcher": "slurm", "sbatch": "--partition=spot"})");
  TrainRun run(job_, options_);
  AwaitWorker(&run);
  const std::string tasks = Shell(folder_, "squeue --noheader --format='%i' | sort");
  EXPECT_THAT(tasks, testing::MatchesRegex("[0-9]+_[01]\n[0-9]+_[01]\n")) << "JOB_SEAT";
  const std::string urgent = Shell(
      folder_,
      "sbatch --parsable --partition=ondemand --nodes=2 --output=/dev/null --wrap='sleep 100'");
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    return status.revocations_noticed == 1 && Alive(status).size() == 1;
  })) << "SIGTERM is the notice";
  Shell(folder_, "scancel " + urgent);
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& status) { return Alive(status).size() == 2; }))
      << "another job has its place";
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(summary["revocations_noticed"].number(), 1);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 0);
  EXPECT_EQ(summary["steps_lost"].number(), 0);
  EXPECT_EQ(summary["joins"].number(), 3);
  const auto profile = Json::Parse(ReadText(run.Root() + "/profile.json"));
  ASSERT_TRUE(profile.has_value());
  const Json starts = (*profile)["starts"];
  ASSERT_GE(starts.size(), 2U);
  EXPECT_EQ(starts[0]["launcher"].text(), "slurm");
  EXPECT_GT(starts[0]["join_s"].number(), 0);
  EXPECT_EQ(summary["starts"].size(), 1U) << "of one type";
}

TEST_F(ElsewhereTest, OrphansOverSshEndThemselves) {
  Open("sshd.sh");
  if (!IsSkipped()) {
    UseSsh();
    ExpectOrphansEnd(R"({"launcher": "ssh", "hosts": [{"host": "127.0.0.1"}]})");
  }
}

TEST_F(ElsewhereTest, OrphansOfSlurmEndThemselves) {
  Open("slurm.sh");
  if (!IsSkipped()) {
    UseSlurm();
    ExpectOrphansEnd(R"({"launcher": "slurm", "sbatch": "--partition=ondemand"})");
  }
}

}  // namespace
}  // namespace ps::e2e
