// Servers that are killed come back, and a run that was killed altogether is resumed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/job_store.h"
#include "checkpoint/manifest.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "tests/base/temporary_folder.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RecoveryTest : public E2eTest {
 protected:
  RecoveryTest() {
    job_.SetEndless()
        .Set("workers", R"([{"count": 2, "step_ms": 20}])")
        .Set("checkpoint", R"({"every_s": 0.3})");
  }

  /// All parameters of the run's model, as bytes of its file.
  static std::string ValuesOf(const std::string& root) {
    const std::string file = ReadText(root + "/model.safetensors");
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
    return file.substr(sizeof(header_bytes) + header_bytes);
  }

  static bool HasCheckpoint(const proto::JobStatus& status) {
    return status.checkpoints.newest >= 2;
  }
};

TEST_F(RecoveryTest, AServerThatIsKilledComesBackWhileTheOthersGoOn) {
  TrainRun run(job_);
  const auto before = run.WaitFor(HasCheckpoint);
  ASSERT_TRUE(before.has_value());
  ASSERT_EQ(before->shards.size(), 2U);
  ASSERT_EQ(::kill(static_cast<pid_t>(before->shards[1].pid), SIGKILL), 0);
  const auto after = run.WaitFor([&](const proto::JobStatus& status) {
    return status.checkpoints.shards_restored == 1 &&
           status.shards[1].state == proto::ShardRowState::kReady;
  });
  ASSERT_TRUE(after.has_value());
  EXPECT_NE(after->shards[1].pid, before->shards[1].pid);
  EXPECT_TRUE(run.WaitForSamples(after->samples_counted + 256));
  StopCleanly(&run);
  EXPECT_THAT(run.psctl().Err(), HasSubstr("1 server shard lost; back from checkpoint"));
  EXPECT_THAT(run.psctl().Out(), ContainsRegex("servers lost +1 shard came back"));
  const Json summary = run.Summary();
  EXPECT_GE(summary["samples_undone"].number(), summary["steps_undone"].number());
  EXPECT_THAT(run.psctl().Out(), ContainsRegex("undone +[0-9,]+ steps? of [0-9,]+ samples"));
  run.ExpectNothingLeft();
}

/// A frozen process keeps the lock of its store, and the next one would wait for it for ever.
TEST_F(RecoveryTest, AServerThatIsFrozenIsKilledAndAnotherOneComesInItsPlace) {
  job_.Set("fleet", R"({"max_detect_s": 2})").Set("servers", R"({"count": 2, "max_detect_s": 2})");
  TrainRun run(job_);
  const auto before = run.WaitFor(HasCheckpoint);
  ASSERT_TRUE(before.has_value());
  const int64_t frozen = before->shards[1].pid;
  ASSERT_EQ(::kill(static_cast<pid_t>(frozen), SIGSTOP), 0);
  const auto after = run.WaitFor([&](const proto::JobStatus& status) {
    return status.shards[1].state == proto::ShardRowState::kReady && status.shards[1].pid != frozen;
  });
  ASSERT_TRUE(after.has_value());
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(frozen); }));
  EXPECT_TRUE(run.WaitForSamples(after->samples_counted + 256)) << "training does not go on";
  StopCleanly(&run);
}

TEST_F(RecoveryTest, AllServersAndTheCoordinatorAreKilledAtOneInstantAndAServerAgain) {
  TrainRun run(job_);
  const auto before = run.WaitFor(HasCheckpoint);
  ASSERT_TRUE(before.has_value());
  const auto coordinator = static_cast<pid_t>(run.CoordinatorPid());
  for (const pid_t pid :
       {static_cast<pid_t>(before->shards[0].pid),
        coordinator,
        static_cast<pid_t>(before->shards[1].pid)}) {
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
  }
  const auto after = run.WaitFor([&](const proto::JobStatus& status) {
    return status.shards[0].pid > 0 && status.shards[0].pid != before->shards[0].pid;
  });
  ASSERT_TRUE(after.has_value());
  ::kill(static_cast<pid_t>(after->shards[0].pid), SIGKILL);  // it may be restoring
  EXPECT_TRUE(run.WaitFor([&](const proto::JobStatus& status) {
    return status.shards[0].pid != after->shards[0].pid &&
           status.samples_counted > after->samples_counted + 256;
  })) << "training does not go on";
  StopCleanly(&run);
  EXPECT_THAT(run.psctl().Err(), HasSubstr("the coordinator is back, restart 1 of this run"));
}

class OneInstantTest : public RecoveryTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(OneInstantTest, AllWorkersAndAServerAreKilledAndTheRunGoesOn) {
  job_.SetEndless(std::string(R"("mode": ")") + GetParam() + '"');
  TrainRun run(job_, {.is_replacing = true});
  const auto before = run.WaitFor(HasCheckpoint);
  ASSERT_TRUE(before.has_value());
  std::vector<int64_t> victims = run.Children("ps_worker");
  EXPECT_EQ(victims.size(), 2U);
  victims.push_back(before->shards[1].pid);
  for (const int64_t pid : victims) {
    ASSERT_EQ(::kill(static_cast<pid_t>(pid), SIGKILL), 0);
  }
  const auto after = run.WaitFor([&](const proto::JobStatus& status) {
    return status.shards[1].state == proto::ShardRowState::kReady &&
           status.shards[1].pid != before->shards[1].pid && Alive(status).size() == 2;
  });
  ASSERT_TRUE(after.has_value());
  EXPECT_TRUE(run.WaitForSamples(after->samples_counted + 256)) << "training does not go on";
  const Json summary = StopCleanly(&run);
  if (std::string(GetParam()) == "async") {
    // In bsp all go back and come anew: who is found lost only then is no member that was revoked.
    EXPECT_EQ(summary["revocations_unnoticed"].number(), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modes, OneInstantTest, testing::Values("async", "bsp"), [](const auto& suite) {
      return suite.param;
    });

TEST_F(RecoveryTest, AllServersGoBackTogetherWhenTheJobSaysSo) {
  job_.Set("checkpoint", R"({"every_s": 0.3, "recovery": "consistent"})");
  TrainRun run(job_);
  const auto before = run.WaitFor(HasCheckpoint);
  ASSERT_TRUE(before.has_value());
  ASSERT_EQ(::kill(static_cast<pid_t>(before->shards[0].pid), SIGKILL), 0);
  EXPECT_TRUE(WaitUntil([&] { return Contains(run.psctl().Err(), "and all went back"); }));
  EXPECT_TRUE(run.WaitForSamples(before->samples_counted + 256)) << "training does not go on";
  StopCleanly(&run);
  EXPECT_THAT(run.psctl().Err(), HasSubstr("a server was lost, and all went back to checkpoint"));
  EXPECT_THAT(run.psctl().Out(), ContainsRegex("went back +1 time with all servers"));
}

/// The model is that of the job's end, so the run has one: far away until it has gone back.
TEST_F(RecoveryTest, InBspAllServersGoBackAndTheModelIsThatOfAnUndisturbedRun) {
  job_.Set("train", R"({"mode": "bsp", "epochs": 1, "minibatch": 32})")
      .Set("workers", R"([{"count": 1}])");
  TemporaryFolder other;
  TrainRun quiet(job_.CopyIn(other.path()));
  EXPECT_EQ(quiet.WaitForEnd(), ProcessEnd{});
  job_.Set("workers", R"([{"count": 1, "step_ms": 500}])");
  TrainRun run(job_);
  const auto before = run.WaitFor(HasCheckpoint);
  ASSERT_TRUE(before.has_value());
  ASSERT_EQ(::kill(static_cast<pid_t>(before->shards[1].pid), SIGKILL), 0);
  EXPECT_TRUE(
      WaitUntil([&] { return Contains(run.psctl().Err(), "all went back to checkpoint"); }));
  EXPECT_TRUE(run.WaitForSamples(before->samples_counted + 64)) << "training does not go on";
  StopCleanly(&run);
  const std::string place = folder_ / "resumed";
  const Output resumed = Psctl(
      {"resume", run.Root(), "--json", "--set", "workers[0].step_ms=0", "run.directory=" + place});
  EXPECT_EQ(resumed.end, ProcessEnd{}) << resumed.err;
  const std::optional<Json> summary = Json::Parse(resumed.out);
  ASSERT_TRUE(summary.has_value()) << resumed.out;
  EXPECT_EQ((*summary)["state"].text(), "done");
  EXPECT_EQ((*summary)["samples_counted"].number(), (*summary)["samples_total"].number());
  const std::string last = std::filesystem::directory_iterator(place)->path().string();
  EXPECT_EQ(ValuesOf(last), ValuesOf(quiet.Root()));
}

TEST_F(RecoveryTest, AServerThatIsGivenNoticeLeavesACheckpointAndIsReplaced) {
  job_.Set("checkpoint", R"({"every_s": 600})");
  TrainRun run(job_);
  const auto before = run.WaitForSamples(256);
  ASSERT_TRUE(before.has_value());
  const Output given = RunToEnd(
      {.program = "psctl",
       .arguments = {"notice", "s1", run.Root(), "--grace", "30s"},
       .output_stem = folder_ / "notice"});
  EXPECT_EQ(given.end, ProcessEnd{}) << given.err;
  const auto after = run.WaitFor([&](const proto::JobStatus& status) {
    return status.checkpoints.shards_restored == 1 &&
           status.shards[1].state == proto::ShardRowState::kReady;
  });
  ASSERT_TRUE(after.has_value());
  EXPECT_GE(after->checkpoints.newest, 1U) << "which nothing but the notice had asked for";
  EXPECT_NE(after->shards[1].pid, before->shards[1].pid);
  EXPECT_EQ(after->shards[0].pid, before->shards[0].pid);
  EXPECT_EQ(after->checkpoints.steps_undone, 0U) << "steps were waited for";
  StopCleanly(&run);
}

TEST_F(RecoveryTest, AServersSigtermIsANoticeAndTheNextProcessIsThereBeforeItLeaves) {
  job_.Set("checkpoint", R"({"every_s": 600})");
  TrainRun run(job_);
  const auto before = run.WaitForSamples(256);
  ASSERT_TRUE(before.has_value());
  ASSERT_EQ(::kill(static_cast<pid_t>(before->shards[1].pid), SIGTERM), 0);
  const auto after = run.WaitFor([&](const proto::JobStatus& status) {
    return status.checkpoints.shards_restored == 1 &&
           status.shards[1].state == proto::ShardRowState::kReady;
  });
  ASSERT_TRUE(after.has_value());
  EXPECT_EQ(after->checkpoints.steps_undone, 0U);
  EXPECT_NE(after->shards[1].pid, before->shards[1].pid);
  StopCleanly(&run);
  const std::string log = ReadText(run.Root() + "/logs/coordinator.log");
  const size_t started = log.find("event=successor_started server=1");
  const size_t lost = log.find("event=server_lost server=1");
  EXPECT_NE(started, std::string::npos);
  EXPECT_LT(started, lost);
}

/// What gives a run without an end one when it is resumed, in an epoch behind its newest
/// checkpoint.
std::string EndBehind(const std::string& root) {
  const auto storage = checkpoint::MakeRocksDbStorage();
  const auto store =
      checkpoint::JobStore::Open(*storage, root + "/checkpoints", checkpoint::OpenMode::kRead);
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) {
    return "";
  }
  const checkpoint::CheckpointId newest = (*store)->Manifests().value().back();
  const auto manifest = checkpoint::DecodeManifest(newest, (*store)->ReadManifest(newest).value());
  return "train.epochs=" + std::to_string(manifest.value().progress.epoch + 2);
}

TEST_F(RecoveryTest, ARunThatWasKilledAltogetherIsResumedOnOtherServersAndWorkers) {
  TrainRun run(job_);
  const auto before = run.WaitFor(HasCheckpoint);
  ASSERT_TRUE(before.has_value());
  const std::string root = run.Root();
  run.KillCoordinator();
  for (const int64_t pid : run.Children()) {
    ::kill(static_cast<pid_t>(pid), SIGKILL);
  }
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd({.code = 0, .signal = SIGKILL}));
  run.ExpectNothingLeft();  // a process that is being killed still has the run's lock

  Process::Options options;
  options.program = "psctl";
  options.arguments = {
      "resume",
      root,
      "--set",
      EndBehind(root),
      "servers.count=3",
      "workers[0].count=3",
      "workers[0].step_ms=0",
      "--json"};
  options.output_stem = root + "/resume";
  Process resume(options);
  EXPECT_EQ(resume.Wait(kRunPatience), ProcessEnd{});
  EXPECT_THAT(resume.Err(), ContainsRegex("going on from checkpoint [0-9]+ in "));
  EXPECT_THAT(
      resume.Err(),
      ContainsRegex("lost since the checkpoint: (nothing|[0-9,]+ steps? of [0-9,]+ samples)"))
      << "the journal knows";
  const std::optional<Json> summary = Json::Parse(resume.Out());
  ASSERT_TRUE(summary.has_value()) << resume.Out();
  EXPECT_EQ((*summary)["state"].text(), "done");
  EXPECT_EQ((*summary)["samples_counted"].number(), (*summary)["samples_total"].number());
}

/// What a command to resume might change before it finds that it can't.
struct Left {
  std::vector<int64_t> processes;
  std::vector<checkpoint::CheckpointId> checkpoints;
  std::vector<checkpoint::SetAside> set_aside;
};

Left LeftOf(const TrainRun& run) {
  const auto storage = checkpoint::MakeRocksDbStorage();
  const auto store = checkpoint::JobStore::Open(
      *storage, run.Root() + "/checkpoints", checkpoint::OpenMode::kRead);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok()
             ? Left{run.Children(), (*store)->Manifests().value(), (*store)->ReadSetAside().value()}
             : Left();
}

/// Puts a checkpoint behind the newest one that is the same but for a bit of its manifest. False
/// while a process that is being killed still has the lock.
bool AddDamagedCheckpoint(const std::string& path) {
  const auto storage = checkpoint::MakeRocksDbStorage();
  const auto store = checkpoint::JobStore::Open(*storage, path, checkpoint::OpenMode::kWrite);
  if (!store.ok()) {
    return false;
  }
  const checkpoint::CheckpointId newest = (*store)->Manifests().value().back();
  std::vector<std::byte> manifest = (*store)->ReadManifest(newest).value();
  manifest[manifest.size() / 2] ^= std::byte{1};
  return (*store)->PutManifest(newest + 1, manifest).ok();
}

TEST_F(RecoveryTest, AResumeThatIsRefusedChangesNothing) {
  job_.Set("fleet", R"({"max_detect_s": 5, "orphan_grace_s": 600})");
  TrainRun run(job_);
  const auto before = run.WaitFor(HasCheckpoint);
  ASSERT_TRUE(before.has_value());
  // Without one of its servers the others are of no use, and wait all the same.
  run.KillCoordinator();
  ::kill(static_cast<pid_t>(before->shards[1].pid), SIGKILL);
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(before->shards[1].pid); }));
  EXPECT_TRUE(WaitUntil([&] { return AddDamagedCheckpoint(run.Root() + "/checkpoints"); }));
  const Left left = LeftOf(run);
  EXPECT_EQ(left.processes.size(), 3U) << "a server and two workers";
  EXPECT_THAT(left.set_aside, IsEmpty());
  for (const auto& [change, why] : std::map<std::string, std::string>{
           {"model.name=cnn", "the checkpoint is of another model"},
           {"servers.chunk_kib=16", "servers.chunk_kib was "},
           {"train.seed=9", "train.seed was 1 and has to stay"},
           {"optimizer.kind=adam", "optimizer.kind, and whether there is momentum, have to stay"},
           {"data.train_samples=64", "the checkpoint does not fit the data"}}) {
    const Output misfit = Psctl({"resume", run.Root(), "--set", change});
    EXPECT_EQ(misfit.end, ProcessEnd{2}) << change;
    EXPECT_THAT(misfit.err, HasSubstr(why));
    const Left now = LeftOf(run);
    EXPECT_EQ(now.processes, left.processes) << change;
    EXPECT_EQ(now.checkpoints, left.checkpoints) << change;
    EXPECT_THAT(now.set_aside, IsEmpty()) << change;
  }
  // What fits does all that the others did not.
  const Output resumed = Psctl({"resume", run.Root(), "--set", "run.seconds_max=1"});
  EXPECT_EQ(resumed.end, ProcessEnd{}) << resumed.err;
  const std::string damaged = std::to_string(left.checkpoints.back());
  EXPECT_THAT(resumed.err, HasSubstr("checkpoint " + damaged + " is skipped: "));
  EXPECT_THAT(resumed.err, HasSubstr("ended what was left of it: 3 of its processes"));
}

TEST_F(RecoveryTest, ARunIsResumedFromItsCopiesWhereNothingElseIsLeft) {
  const TemporaryFolder place;
  job_.Set("checkpoint", R"({"every_s": 0.3, "keep": 2, "copy_to": ")" + place.path() + R"("})");
  job_.Set("launch", R"({"prefix": "env SPOTPS_TEST=1"})");
  TrainRun run(job_);
  const auto before =
      run.WaitFor([](const proto::JobStatus& status) { return status.copies.newest >= 2; });
  ASSERT_TRUE(before.has_value());
  const std::string root = run.Root();
  run.KillCoordinator();
  for (const int64_t pid : run.Children()) {
    ::kill(static_cast<pid_t>(pid), SIGKILL);
  }
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd({.code = 0, .signal = SIGKILL}));
  const std::string end = EndBehind(root);
  std::filesystem::remove_all(root + "/checkpoints");

  Process::Options options;
  options.program = "psctl";
  options.directory = root;
  options.output_stem = root + "/misfit";
  for (const auto& [change, why] : std::map<std::string, std::string>{
           {"model.name=cnn", "the checkpoint is of another model"},
           {"servers.chunk_kib=16", "servers.chunk_kib was "},
           {"train.seed=9", "train.seed was 1 and has to stay: epoch "},
           {"optimizer.kind=adam", "optimizer.kind, and whether there is momentum, have to stay"},
           {"train.overlap=true", "launch.prefix = \"env SPOTPS_TEST=1\""}}) {
    options.arguments = {"resume", place.path(), "--set", "train.overlap=false", change};
    const Output misfit = RunToEnd(options);
    EXPECT_EQ(misfit.end, ProcessEnd{2});
    EXPECT_THAT(misfit.err, HasSubstr(why));
  }
  EXPECT_FALSE(std::filesystem::exists(root + "/runs")) << "nothing was fetched";

  options.arguments = {
      "resume",
      place.path(),
      "--json",
      "--trust-launch",
      "--set",
      end,
      "run.directory=elsewhere",
      "workers[0].step_ms=0"};
  options.output_stem = root + "/resume";
  Process resume(options);
  EXPECT_EQ(resume.Wait(kRunPatience), ProcessEnd{});
  EXPECT_THAT(resume.Err(), ContainsRegex("fetched checkpoint [0-9]+ from "));
  EXPECT_THAT(
      resume.Err(), ContainsRegex("going on from checkpoint [0-9]+ in .*/elsewhere/fetched-"));
  const std::optional<Json> summary = Json::Parse(resume.Out());
  ASSERT_TRUE(summary.has_value()) << resume.Out();
  EXPECT_EQ((*summary)["state"].text(), "done");
  EXPECT_EQ((*summary)["samples_counted"].number(), (*summary)["samples_total"].number());
}

}  // namespace
}  // namespace ps::e2e
