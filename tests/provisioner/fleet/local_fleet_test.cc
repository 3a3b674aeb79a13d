#include "provisioner/fleet/local_fleet.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "ps/base/file.h"
#include "ps/base/host_port.h"
#include "tests/base/temporary_folder.h"

namespace ps::provisioner {
namespace {

using proto::ProcessKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Notes what is asked for; processes end when the test says so.
class ScriptedLauncher final : public Launcher {
 public:
  Result<ProcessHandle> Start(const LaunchSpec& spec) override {
    if (fails) {
      return Status::Io("no more processes");
    }
    started.push_back(spec);
    if (spec.note) {
      spec.note(
          {spec.kind, spec.index, spec.launch, 100 + static_cast<int64_t>(started.size()), 5});
    }
    return ProcessHandle(started.size());
  }

  Result<ProcessHandle> Adopt(const proto::LaunchRecord& launch) override {
    if (launch.start_ticks == 0) {
      return Status::NotFound("it is over");
    }
    return ProcessHandle(1000 + static_cast<uint64_t>(launch.pid));
  }

  Status Kill(ProcessHandle handle) override {
    killed.push_back(handle.value);
    return Status::Ok();
  }

  std::vector<ProcessExit> PollExits() override { return std::exchange(exits, {}); }

  int64_t pid(ProcessHandle handle) const override {
    return 100 + static_cast<int64_t>(handle.value);
  }

  bool fails = false;
  std::vector<LaunchSpec> started;
  std::vector<uint64_t> killed;
  std::vector<ProcessExit> exits;
};

/// What was noted and is not over.
class ScriptedJournal final : public proto::LaunchJournal {
 public:
  void NoteStarted(const proto::LaunchRecord& launch) override { running.insert(launch); }

  void NoteEnded(const proto::LaunchRecord& launch) override { running.erase(launch); }

  std::set<proto::LaunchRecord> running;
};

class LocalFleetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    token_file_ = folder_ / "token";
    LocalFleet::Options options;
    options.program_directory = folder_.path();
    options.log_directory = folder_ / "logs";
    options.make_token_file = [this](ProcessKind, uint32_t) -> Result<std::string> {
      return token_file_;
    };
    options.coordinator = "127.0.0.1:4000";
    options.listen = "0.0.0.0";
    options.machine = "10.0.0.9";
    options.run_start_us = 1'769'852'496'123'456;
    options.shards_per_server = 2;
    Make(options);
  }

  void Make(LocalFleet::Options options) {
    options_ = std::move(options);
    fleet_ = std::make_unique<LocalFleet>(options_, &launcher_, &NullLogger());
  }

  // Launches are 1, 2, 3, ...

  void StartServer(uint32_t server) { fleet_->StartServer(server, LaunchId(++launches_)); }

  void StartWorker(WorkerId seat, const proto::WorkerGroup& group) {
    fleet_->StartWorker(seat, LaunchId(++launches_), group);
  }

  TemporaryFolder folder_;
  std::string token_file_;
  uint64_t launches_ = 0;
  LocalFleet::Options options_;
  ScriptedLauncher launcher_;
  std::unique_ptr<LocalFleet> fleet_;
};

TEST_F(LocalFleetTest, AServerLearnsItsNumberItsShardsAndTheCoordinator) {
  StartServer(1);
  ASSERT_EQ(launcher_.started.size(), 1U);
  const LaunchSpec& spec = launcher_.started[0];
  EXPECT_EQ(spec.kind, ProcessKind::kServer);
  EXPECT_EQ(spec.program, folder_ / "ps_server");
  EXPECT_EQ(spec.log_path, folder_ / "logs/server1.log");
  EXPECT_THAT(
      spec.arguments,
      ElementsAre(
          "--id",
          "1",
          "--shards",
          "2",
          "--listen",
          "0.0.0.0",
          "--advertise",
          "10.0.0.9",
          "--coordinator",
          "127.0.0.1:4000",
          "--token-file",
          token_file_,
          "--run-start-us",
          "1769852496123456",
          "--launch",
          "1",
          "--log-file",
          spec.log_path));
}

TEST_F(LocalFleetTest, WhoGetsNoTokenFileIsNotStarted) {
  LocalFleet::Options options = options_;
  options.make_token_file = [](ProcessKind kind, uint32_t index) -> Result<std::string> {
    return Status::Io(fmt::format("no room for {} {}", static_cast<int>(kind), index));
  };
  Make(options);
  StartServer(0);
  StartWorker(WorkerId(3), {});
  EXPECT_TRUE(launcher_.started.empty());
  const auto ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_TRUE(ends[1].is_failure);
  EXPECT_EQ(ends[1].index, 3U);
  EXPECT_NE(ends[1].description.find("no room for"), std::string::npos);
}

TEST_F(LocalFleetTest, PortsGoOnFromServerToServer) {
  LocalFleet::Options options = options_;
  options.server_port = 5000;
  Make(options);
  StartServer(1);
  EXPECT_THAT(launcher_.started[0].arguments, testing::IsSupersetOf({"--port", "5002"}));
}

TEST_F(LocalFleetTest, AServerAsksTheProviderThatTheJobNames) {
  LocalFleet::Options options = options_;
  options.server_notices = proto::NoticeService::kGcp;
  Make(options);
  StartServer(1);
  EXPECT_THAT(launcher_.started[0].arguments, testing::IsSupersetOf({"--notices", "gcp"}));
}

TEST_F(LocalFleetTest, APrefixStartsEachProcessWhereItBelongs) {
  LocalFleet::Options options = options_;
  options.launch.prefix = "ip netns exec {name}";
  options.launch.server_advertise = "10.1.0.{index}";
  Make(options);
  StartServer(1);
  StartWorker(WorkerId(3), {});
  ASSERT_EQ(launcher_.started.size(), 2U);
  const LaunchSpec& server = launcher_.started[0];
  EXPECT_EQ(server.program, "ip");
  EXPECT_THAT(
      std::vector(server.arguments.begin(), server.arguments.begin() + 4),
      ElementsAre("netns", "exec", "server1", folder_ / "ps_server"));
  EXPECT_THAT(server.arguments, testing::IsSupersetOf({"--advertise", "10.1.0.1"}));
  EXPECT_EQ(launcher_.started[1].arguments[2], "worker3");
}

TEST_F(LocalFleetTest, AWorkerOverSshHasAnAgentHereAndAServerHasNone) {
  LocalFleet::Options options = options_;
  options.launch.launcher = proto::LauncherKind::kSsh;
  options.launch.hosts = {{"10.0.0.3", 1}};
  options.launch.ssh_config = "my_config";
  Make(options);
  StartServer(0);
  StartWorker(WorkerId(3), {});
  ASSERT_EQ(launcher_.started.size(), 2U);
  EXPECT_EQ(launcher_.started[0].program, folder_ / "ps_server");
  EXPECT_EQ(launcher_.started[1].program, folder_ / "ps_agent");
  EXPECT_THAT(
      launcher_.started[1].arguments,
      ElementsAre(
          "--launcher",
          "ssh",
          "--host",
          "10.0.0.3",
          "--token-file",
          token_file_,
          "--ssh-config",
          "my_config",
          "--program",
          folder_ / "ps_worker",
          "--",
          "--seat",
          "3",
          "--coordinator",
          "127.0.0.1:4000",
          "--token-file",
          "/dev/stdin",
          "--run-start-us",
          "1769852496123456",
          "--launch",
          "2"));
}

/// A server that is to leave, and the process that waits for its place.
TEST_F(LocalFleetTest, TwoProcessesOfOneServerAreToldApartByTheirLaunches) {
  ScriptedJournal journal;
  LocalFleet::Options options = options_;
  options.journal = &journal;
  Make(options);
  StartServer(1);
  StartServer(1);
  EXPECT_TRUE(launcher_.killed.empty());
  EXPECT_EQ(journal.running.size(), 2U);
  launcher_.exits = {
      {ProcessHandle(1), ProcessKind::kServer, 1, true, false, "exited with code 0", 0}};
  const std::vector<proto::ProcessEnd> ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].index, 1U);
  EXPECT_EQ(ends[0].launch, LaunchId(1));
  EXPECT_EQ(fleet_->running_count(), 1U);
  fleet_->TakeEnds();
  ASSERT_EQ(journal.running.size(), 1U);
  EXPECT_EQ(journal.running.begin()->pid, 102);
  EXPECT_EQ(journal.running.begin()->launch, LaunchId(2));
}

/// The coordinator tells their ends apart, wherever they run.
TEST_F(LocalFleetTest, AWorkerThatIsStartedAgainIsKilledFirstAndBothEndsAreTold) {
  ScriptedJournal journal;
  LocalFleet::Options options = options_;
  options.journal = &journal;
  options.launch.launcher = proto::LauncherKind::kSlurm;
  Make(options);
  StartWorker(WorkerId(3), {});
  StartWorker(WorkerId(3), {});
  EXPECT_THAT(launcher_.killed, ElementsAre(1U));
  EXPECT_EQ(journal.running.size(), 2U) << "a successor has to learn of the end";
  EXPECT_THAT(launcher_.started[0].arguments, testing::IsSupersetOf({"--launch", "1"}));
  EXPECT_THAT(launcher_.started[1].arguments, testing::IsSupersetOf({"--launch", "2"}));
  launcher_.exits = {
      {ProcessHandle(2), ProcessKind::kWorker, 3, false, true, "exited with code 121", 121},
      {ProcessHandle(1), ProcessKind::kWorker, 3, false, false, "killed by signal 9 (Killed)"}};
  const std::vector<proto::ProcessEnd> ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].launch, LaunchId(2));
  EXPECT_TRUE(ends[0].is_place);
  EXPECT_EQ(ends[1].launch, LaunchId(1));
  EXPECT_FALSE(ends[1].is_place) << "it was killed on purpose";
  EXPECT_EQ(fleet_->running_count(), 0U);
}

TEST_F(LocalFleetTest, AWorkerOfSlurmIsAJobWithItsProcessors) {
  LocalFleet::Options options = options_;
  options.job_name = "demo";
  options.launch.launcher = proto::LauncherKind::kSlurm;
  options.launch.sbatch = "--partition=spot --mem=4G";
  Make(options);
  proto::WorkerGroup group;
  group.threads = 4;
  StartWorker(WorkerId(3), group);
  ASSERT_EQ(launcher_.started.size(), 1U);
  const std::vector<std::string>& arguments = launcher_.started[0].arguments;
  EXPECT_THAT(
      std::vector(arguments.begin(), arguments.begin() + 15),
      ElementsAre(
          "--launcher",
          "slurm",
          "--name",
          "demo-worker3",
          "--task",
          "3",
          "--cpus",
          "4",
          "--log-file",
          folder_ / "logs/worker3.log",
          "--sbatch",
          "--partition=spot --mem=4G",
          "--program",
          folder_ / "ps_worker",
          "--"));
  EXPECT_THAT(arguments, testing::IsSupersetOf({"--token-file", token_file_.c_str()}));
}

TEST_F(LocalFleetTest, AWorkerIsStartedInItsZone) {
  LocalFleet::Options options = options_;
  options.launch.launcher = proto::LauncherKind::kSlurm;
  options.launch.sbatch = "--mem=4G";
  options.launch.zones = {{"a", "--partition=spot-a"}, {"b", ""}};
  Make(options);
  const auto words_of_last = [this] {
    const std::vector<std::string>& arguments = launcher_.started.back().arguments;
    return *(std::ranges::find(arguments, "--sbatch") + 1);
  };
  proto::WorkerGroup group;
  group.zones = {"a"};
  StartWorker(WorkerId(0), group);
  EXPECT_EQ(words_of_last(), "--mem=4G --partition=spot-a");
  group.zones = {"b"};
  StartWorker(WorkerId(1), group);
  EXPECT_EQ(words_of_last(), "--mem=4G");

  options.launch.launcher = proto::LauncherKind::kSsh;
  options.launch.hosts = {{"h1", 1, "a"}, {"h2", 1, "b"}};
  Make(options);
  StartWorker(WorkerId(2), group);
  EXPECT_EQ(launcher_.started.back().arguments[3], "h2");
  StartWorker(WorkerId(3), group);
  const auto full = fleet_->TakeEnds();
  ASSERT_EQ(full.size(), 1U);
  EXPECT_THAT(full[0].last_words, HasSubstr("no free slot in zone b: h2 is full"));
  EXPECT_FALSE(full[0].is_place) << "no host was asked";
}

TEST_F(LocalFleetTest, AHostThatTakesNobodyIsNoFailureOfTheWorkerAndIsLeftOut) {
  LocalFleet::Options options = options_;
  options.launch.launcher = proto::LauncherKind::kSsh;
  options.launch.hosts = {{"gone", 2}, {"there", 1}};
  Make(options);
  std::filesystem::create_directories(options.log_directory);
  ASSERT_TRUE(
      WriteFileAtomically(options.log_directory + "/worker0.log", "ps_agent: gone: why\n").ok());
  const auto host_of_last = [this] { return launcher_.started.back().arguments[3]; };
  StartWorker(WorkerId(0), {});
  EXPECT_EQ(host_of_last(), "gone");
  launcher_.exits = {
      {ProcessHandle(1), ProcessKind::kWorker, 0, false, true, "exited with code 120", 120}};
  const std::vector<proto::ProcessEnd> ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_FALSE(ends[0].is_failure);
  EXPECT_TRUE(ends[0].is_place);
  EXPECT_EQ(ends[0].launch, LaunchId(1));
  EXPECT_EQ(ends[0].description, "was not started");
  EXPECT_EQ(ends[0].last_words, "ps_agent: gone: why");

  StartWorker(WorkerId(0), {});
  EXPECT_EQ(host_of_last(), "there");
  StartWorker(WorkerId(1), {});
  EXPECT_EQ(launcher_.started.size(), 2U);
  const std::vector<proto::ProcessEnd> none = fleet_->TakeEnds();
  ASSERT_EQ(none.size(), 1U);
  EXPECT_EQ(none[0].index, 1U);
  EXPECT_FALSE(none[0].is_failure);
  EXPECT_THAT(
      none[0].last_words,
      testing::ContainsRegex("gone is left out for .* after 1 failure, there is full"));
  StartWorker(WorkerId(1), {});
  EXPECT_EQ(fleet_->TakeEnds().at(0).last_words, "") << "once is enough";
}

TEST_F(LocalFleetTest, AWorkerLearnsTheLeastDurationOfItsSteps) {
  proto::WorkerGroup group;
  group.step_ms = 12.5;
  StartWorker(WorkerId(0), group);
  EXPECT_THAT(
      launcher_.started[0].arguments, testing::IsSupersetOf({"--emulate-step-us", "12500"}));
  EXPECT_EQ(launcher_.started[0].program, folder_ / "ps_worker");
}

TEST_F(LocalFleetTest, AWorkerLearnsWhomToAskForNotices) {
  proto::WorkerGroup group;
  StartWorker(WorkerId(0), group);
  EXPECT_THAT(launcher_.started[0].arguments, testing::Not(testing::Contains("--notices")));
  group.notices = proto::NoticeService::kAzure;
  StartWorker(WorkerId(1), group);
  EXPECT_THAT(launcher_.started[1].arguments, testing::IsSupersetOf({"--notices", "azure"}));
}

TEST_F(LocalFleetTest, KillingASeatKillsItAlone) {
  StartServer(0);
  StartWorker(WorkerId(0), {});
  StartWorker(WorkerId(1), {});
  fleet_->KillWorker(WorkerId(0));
  EXPECT_THAT(launcher_.killed, ElementsAre(2U));
  fleet_->KillWorker(WorkerId(9));
  EXPECT_THAT(launcher_.killed, ElementsAre(2U));
  launcher_.killed.clear();
  fleet_->KillAll();
  EXPECT_THAT(launcher_.killed, ElementsAre(1U, 2U, 3U));
}

TEST_F(LocalFleetTest, KillingAServerKillsAllThatItStartedOfIt) {
  EXPECT_FALSE(fleet_->HasServer(0)) << "somebody else may have started one";
  StartServer(0);
  StartServer(1);
  StartServer(0);  // the one that takes its place
  StartWorker(WorkerId(0), {});
  EXPECT_TRUE(fleet_->HasServer(0));
  EXPECT_FALSE(fleet_->HasServer(2));
  fleet_->KillServer(0);
  EXPECT_THAT(launcher_.killed, ElementsAre(1U, 3U));
  launcher_.exits = {
      {ProcessHandle(1), ProcessKind::kServer, 0, true, false, "killed by signal 9 (Killed)"},
      {ProcessHandle(3), ProcessKind::kServer, 0, true, false, "killed by signal 9 (Killed)"}};
  EXPECT_EQ(fleet_->TakeEnds().size(), 2U);
  EXPECT_FALSE(fleet_->HasServer(0));
  fleet_->KillServer(0);
  EXPECT_THAT(launcher_.killed, ElementsAre(1U, 3U));
}

TEST_F(LocalFleetTest, AnEndNamesTheLaunchAndTheLastLineOfOneThatFailed) {
  StartWorker(WorkerId(0), {});
  StartWorker(WorkerId(1), {});
  fleet_->KillWorker(WorkerId(1));
  launcher_.exits = {
      {ProcessHandle(1), ProcessKind::kWorker, 0, false, true, "exited with code 1"},
      {ProcessHandle(2), ProcessKind::kWorker, 1, false, true, "exited with code 2"}};
  const std::string logs = folder_ / "logs";
  ASSERT_EQ(::mkdir(logs.c_str(), 0755), 0);
  ASSERT_TRUE(WriteFileAtomically(logs + "/worker0.log", "begun\nno such file\n \n").ok());
  const auto ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].launch, LaunchId(1));
  EXPECT_EQ(ends[0].index, 0U);
  EXPECT_TRUE(ends[0].is_failure);
  EXPECT_EQ(ends[0].description, "exited with code 1");
  EXPECT_EQ(ends[0].last_words, "no such file");
  EXPECT_FALSE(ends[1].is_failure) << "it was killed on purpose";
  EXPECT_EQ(fleet_->running_count(), 0U);
  EXPECT_THAT(fleet_->TakeEnds(), IsEmpty());
}

TEST_F(LocalFleetTest, AFailureToStartIsAnEndToo) {
  launcher_.fails = true;
  StartServer(4);
  const auto ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].kind, ProcessKind::kServer);
  EXPECT_EQ(ends[0].index, 4U);
  EXPECT_EQ(ends[0].launch, LaunchId(1));
  EXPECT_EQ(ends[0].description, "no more processes");
}

TEST_F(LocalFleetTest, TheJournalForgetsAProcessOnceItsEndWasActedOn) {
  ScriptedJournal journal;
  LocalFleet::Options options = options_;
  options.journal = &journal;
  Make(options);
  StartWorker(WorkerId(0), {});
  const proto::LaunchRecord launch{ProcessKind::kWorker, 0, LaunchId(1), 101, 5};
  EXPECT_THAT(journal.running, ElementsAre(launch));
  launcher_.exits = {
      {ProcessHandle(1), ProcessKind::kWorker, 0, false, true, "exited with code 1"}};
  EXPECT_EQ(fleet_->TakeEnds().size(), 1U);
  EXPECT_THAT(journal.running, ElementsAre(launch)) << "a successor has to learn of the end";
  EXPECT_THAT(fleet_->TakeEnds(), IsEmpty());
  EXPECT_THAT(journal.running, IsEmpty());
}

TEST_F(LocalFleetTest, AdoptedProcessesAreItsOwnAndThoseThatAreOverAreEnds) {
  ScriptedJournal journal;
  LocalFleet::Options options = options_;
  options.journal = &journal;
  Make(options);
  const proto::LaunchRecord over{ProcessKind::kServer, 1, LaunchId(8), 77, 0};
  const proto::LaunchRecord alive{ProcessKind::kWorker, 3, LaunchId(9), 78, 9};
  journal.running = {over, alive};
  fleet_->Adopt(std::vector{over, alive});
  EXPECT_EQ(fleet_->running_count(), 1U);
  const auto ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].kind, ProcessKind::kServer);
  EXPECT_EQ(ends[0].index, 1U);
  EXPECT_EQ(ends[0].launch, LaunchId(8));
  EXPECT_FALSE(ends[0].is_failure);
  EXPECT_THAT(ends[0].description, HasSubstr("exit code is not known"));
  EXPECT_THAT(fleet_->TakeEnds(), IsEmpty());
  EXPECT_THAT(journal.running, ElementsAre(alive));
  fleet_->KillWorker(WorkerId(3));
  EXPECT_THAT(launcher_.killed, ElementsAre(1078U));
}

TEST_F(LocalFleetTest, MissingProgramsAreNamedBeforeAnythingStarts) {
  EXPECT_THAT(std::string(CheckPrograms(folder_.path(), {}).message()), HasSubstr("/ps_server"));
  for (const char* name : {"/ps_server", "/ps_worker"}) {
    ASSERT_TRUE(WriteFileAtomically(folder_.path() + name, "", 0755).ok());
  }
  EXPECT_TRUE(CheckPrograms(folder_.path(), {}).ok());
}

TEST_F(LocalFleetTest, WhatALauncherNeedsHasToBeThere) {
  for (const char* name : {"/ps_server", "/ps_worker"}) {
    ASSERT_TRUE(WriteFileAtomically(folder_.path() + name, "", 0755).ok());
  }
  proto::LaunchConfig launch;
  launch.launcher = proto::LauncherKind::kSsh;
  launch.ssh_config = folder_ / "no_config";
  const auto error = [&] { return std::string(CheckPrograms(folder_.path(), launch).message()); };
  EXPECT_THAT(error(), HasSubstr("there is no program " + folder_ / "ps_agent"));
  ASSERT_TRUE(WriteFileAtomically(folder_ / "ps_agent", "", 0755).ok());

  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder_.path().c_str(), 1);
  EXPECT_EQ(
      error(),
      "launch.launcher is ssh, and no folder of PATH has the program ssh; install openssh-client");
  ASSERT_TRUE(WriteFileAtomically(folder_ / "ssh", "", 0755).ok());
  EXPECT_THAT(error(), HasSubstr("no_config is no file; allowed: a configuration file of ssh"));
  launch.ssh_config.clear();
  EXPECT_EQ(error(), "");
  launch.launcher = proto::LauncherKind::kSlurm;
  EXPECT_THAT(error(), HasSubstr("has the program sbatch; install slurm-client"));
  ::setenv("PATH", path.c_str(), 1);
}

TEST_F(LocalFleetTest, TheProgramOfAPrefixHasToBeThere) {
  for (const char* name : {"/ps_server", "/ps_worker", "/before_worker"}) {
    ASSERT_TRUE(WriteFileAtomically(folder_.path() + name, "", 0755).ok());
  }
  ASSERT_TRUE(WriteFileAtomically(folder_ / "text", "", 0644).ok());
  const auto error = [this](const std::string& prefix) {
    proto::LaunchConfig launch;
    launch.prefix = prefix;
    return std::string(CheckPrograms(folder_.path(), launch).message());
  };
  EXPECT_EQ(error("env -u HOME"), "");
  EXPECT_EQ(error(folder_ / "ps_server --name {name}"), "");
  EXPECT_THAT(
      error("no-such-program-anywhere {name}"),
      HasSubstr("launch.prefix begins with 'no-such-program-anywhere', which no folder of PATH"));
  EXPECT_THAT(error(folder_ / "text"), HasSubstr("/text', which is not a program"));
  EXPECT_THAT(error(folder_.path()), HasSubstr("which is not a program"));
  EXPECT_THAT(error(folder_ / "before_{role}"), HasSubstr("/before_server', which is not"))
      << "both kinds are looked at";
}

TEST(LaunchTextTest, PlaceholdersAreFilledInAndOtherBracesStay) {
  EXPECT_EQ(FillLaunchText("{name} {role} {index}{index}", "worker", 12), "worker12 worker 1212");
  EXPECT_EQ(FillLaunchText("{nam} {} {", "worker", 1), "{nam} {} {");
  EXPECT_EQ(FillLaunchText("", "server", 0), "");
}

TEST(LaunchTextTest, APrefixIsCutAtSpaces) {
  EXPECT_THAT(
      LaunchWords("  ip netns\texec {name} ", "server", 0),
      ElementsAre("ip", "netns", "exec", "server0"));
  EXPECT_THAT(LaunchWords(" ", "server", 0), IsEmpty());
}

}  // namespace
}  // namespace ps::provisioner
