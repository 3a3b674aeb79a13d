#include "provisioner/fleet/job_fleet.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "ps/base/file.h"
#include "ps/base/host_port.h"
#include "tests/provisioner/fleet/scripted_fleet.h"

namespace ps::provisioner {
namespace {

using proto::ProcessKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(JobFleetTest, AServerLearnsItsNumberItsShardsAndTheCoordinator) {
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

TEST_F(JobFleetTest, WhoGetsNoTokenFileIsNotStarted) {
  JobFleet::Options options = options_;
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

TEST_F(JobFleetTest, PortsGoOnFromServerToServer) {
  JobFleet::Options options = options_;
  options.servers.port = 5000;
  Make(options);
  StartServer(1);
  EXPECT_THAT(launcher_.started[0].arguments, testing::IsSupersetOf({"--port", "5002"}));
}

TEST_F(JobFleetTest, AServerAsksTheProviderThatTheJobNames) {
  JobFleet::Options options = options_;
  options.servers.notices = proto::NoticeService::kGcp;
  Make(options);
  StartServer(1);
  EXPECT_THAT(launcher_.started[0].arguments, testing::IsSupersetOf({"--notices", "gcp"}));
}

/// Of whatever launcher. With Slurm the agent asks for a signal that leaves as much.
TEST_F(JobFleetTest, AProcessLearnsWhatSigtermLeavesIt) {
  using proto::LauncherKind;
  for (const auto launcher : {LauncherKind::kLocal, LauncherKind::kSsh, LauncherKind::kSlurm}) {
    launcher_.started.clear();
    JobFleet::Options options = options_;
    options.launch.launcher = launcher;
    options.launch.hosts = {{"10.0.0.3", 1}};
    options.launch.term_grace_s = 120;
    options.servers.launcher = launcher;
    options.servers.hosts = {{"10.0.0.4", 1}};
    options.servers.term_grace_s = 30;
    Make(options);
    StartWorker(WorkerId(3), {});
    StartServer(1);
    ASSERT_EQ(launcher_.started.size(), 2U);
    for (const auto& [spec, grace_s] :
         {std::pair(launcher_.started[0], "120"), std::pair(launcher_.started[1], "30")}) {
      const std::vector<std::string>& words = spec.arguments;
      // After the agent's own, if there is one.
      const auto own = std::ranges::find(words, "--");
      const std::vector<std::string> of_program(
          own == words.end() ? words.begin() : own, words.end());
      const std::vector<std::string> of_agent(
          words.begin(), own == words.end() ? words.begin() : own);
      EXPECT_THAT(of_program, testing::IsSupersetOf({"--term-grace-s", grace_s}));
      EXPECT_EQ(
          std::ranges::count(of_agent, "--notice-s"), launcher == LauncherKind::kSlurm ? 1 : 0);
    }
  }
}

TEST_F(JobFleetTest, APrefixStartsEachProcessWhereItBelongs) {
  JobFleet::Options options = options_;
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

TEST_F(JobFleetTest, AWorkerOverSshHasAnAgentHereAndAServerHasNone) {
  JobFleet::Options options = options_;
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

TEST_F(JobFleetTest, AServerOverSshFindsOutItsAddressAndNeedsTheSharedFolder) {
  JobFleet::Options options = options_;
  options.servers.launcher = proto::LauncherKind::kSsh;
  options.servers.hosts = {{"10.0.0.3", 1}};
  options.servers.port = 5000;
  options.server_needs = "/shared/checkpoints/job";
  Make(options);
  StartServer(1);
  StartWorker(WorkerId(3), {});
  ASSERT_EQ(launcher_.started.size(), 2U);
  EXPECT_EQ(launcher_.started[1].program, folder_ / "ps_worker");
  EXPECT_EQ(launcher_.started[0].program, folder_ / "ps_agent");
  EXPECT_EQ(launcher_.started[0].log_path, folder_ / "logs/server1.log");
  EXPECT_THAT(
      launcher_.started[0].arguments,
      ElementsAre(
          "--launcher",
          "ssh",
          "--host",
          "10.0.0.3",
          "--token-file",
          token_file_,
          "--needs",
          "/shared/checkpoints/job",
          "--program",
          folder_ / "ps_server",
          "--",
          "--id",
          "1",
          "--shards",
          "2",
          "--port",
          "5002",
          "--coordinator",
          "127.0.0.1:4000",
          "--token-file",
          "/dev/stdin",
          "--run-start-us",
          "1769852496123456",
          "--launch",
          "1"));
  options.launch.server_listen = "0.0.0.0";
  options.launch.server_advertise = "10.1.0.{index}";
  Make(options);
  StartServer(7);
  EXPECT_THAT(
      launcher_.started.back().arguments,
      testing::IsSupersetOf({"--listen", "0.0.0.0", "--advertise", "10.1.0.7"}));
}

TEST_F(JobFleetTest, AServerOfSlurmIsAJobWithAProcessorForEachShard) {
  JobFleet::Options options = options_;
  options.job_name = "demo";
  options.servers.launcher = proto::LauncherKind::kSlurm;
  options.servers.sbatch = "--partition=ondemand";
  Make(options);
  StartServer(1);
  ASSERT_EQ(launcher_.started.size(), 1U);
  const std::vector<std::string>& arguments = launcher_.started[0].arguments;
  EXPECT_THAT(
      std::vector(arguments.begin(), arguments.begin() + 15),
      ElementsAre(
          "--launcher",
          "slurm",
          "--name",
          "demo-server1",
          "--task",
          "1",
          "--cpus",
          "2",
          "--log-file",
          folder_ / "logs/server1.log",
          "--sbatch",
          "--partition=ondemand",
          "--program",
          folder_ / "ps_server",
          "--"));
  EXPECT_THAT(arguments, testing::IsSupersetOf({"--token-file", token_file_.c_str()}));
}

/// Nothing goes on without a server, and the coordinator gives one up after a few starts.
TEST_F(JobFleetTest, AServerWithoutAFreeSlotIsStartedWhenThereIsOne) {
  JobFleet::Options options = options_;
  options.servers.launcher = proto::LauncherKind::kSsh;
  options.servers.hosts = {{"only", 1}};
  Make(options);
  StartServer(0);
  StartServer(1);
  StartServer(1);
  EXPECT_EQ(launcher_.started.size(), 1U);
  EXPECT_TRUE(fleet_->HasServer(1));
  const auto dropped = fleet_->TakeEnds();
  ASSERT_EQ(dropped.size(), 1U) << "the newer start takes the place of the one that waited";
  EXPECT_EQ(dropped[0].launch, LaunchId(2));
  EXPECT_FALSE(dropped[0].is_failure);
  launcher_.exits = {
      {ProcessHandle(1), ProcessKind::kServer, 0, true, false, "exited with code 0", 0}};
  EXPECT_EQ(fleet_->TakeEnds().size(), 1U);
  ASSERT_EQ(launcher_.started.size(), 2U);
  EXPECT_EQ(launcher_.started[1].index, 1U);
  EXPECT_EQ(launcher_.started[1].launch, LaunchId(3));

  StartServer(2);
  fleet_->KillServer(2, LaunchId());
  EXPECT_FALSE(fleet_->HasServer(2));
  const auto ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].index, 2U);
  EXPECT_FALSE(ends[0].is_failure);
}

/// The time of a fleet, by hand.
class ManualTime final : public TimeSource {
 public:
  TimePoint Now() const override { return now; }

  int64_t UnixMicros() const override { return 0; }

  TimePoint now{};
};

TEST_F(JobFleetTest, SlurmIsLeftAloneForAWhileAfterItRefusedAServerButNotAfterItTookOneBack) {
  ManualTime time;
  JobFleet::Options options = options_;
  options.servers.launcher = proto::LauncherKind::kSlurm;
  options.time = &time;
  Make(options);
  StartServer(0);
  launcher_.exits = {
      {ProcessHandle(1), ProcessKind::kServer, 0, false, true, "exited with code 121", 121}};
  const auto lost = fleet_->TakeEnds();
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].description, "was lost");
  StartServer(0);
  EXPECT_EQ(launcher_.started.size(), 2U);
  launcher_.exits = {
      {ProcessHandle(2), ProcessKind::kServer, 0, false, true, "exited with code 120", 120}};
  EXPECT_EQ(fleet_->TakeEnds().size(), 1U);
  StartServer(0);
  EXPECT_EQ(launcher_.started.size(), 2U);
  time.now += std::chrono::seconds(10);
  EXPECT_THAT(fleet_->TakeEnds(), IsEmpty());
  EXPECT_EQ(launcher_.started.size(), 3U);
}

TEST_F(JobFleetTest, AWorkerWithAShareOfTheProcessorsIsPutIntoAGroup) {
  const Result<CpuGroups> groups = CpuGroups::Find();
  if (!groups.ok()) {
    GTEST_SKIP() << groups.status().message();
  }
  proto::WorkerGroup group;
  group.cpu_share = 0.5;
  StartWorker(WorkerId(3), group);
  ASSERT_EQ(launcher_.started.size(), 1U);
  const LaunchSpec& spec = launcher_.started[0];
  EXPECT_EQ(spec.program, "/bin/sh");
  ASSERT_GT(spec.arguments.size(), 4U);
  const std::filesystem::path procs = spec.arguments[2];
  EXPECT_EQ(spec.arguments[3], folder_ / "ps_worker");
  EXPECT_THAT(
      procs.string(),
      testing::AllOf(
          testing::StartsWith(groups->parent().path + "/spotps-"),
          testing::EndsWith("-worker3/cgroup.procs")));
  const bool is_v2 = groups->parent().is_v2;
  EXPECT_EQ(
      ReadFile(procs.parent_path() / (is_v2 ? "cpu.max" : "cpu.cfs_quota_us")).value(),
      is_v2 ? "50000 100000\n" : "50000\n");
  launcher_.exits = {
      {ProcessHandle(1), ProcessKind::kWorker, 3, true, false, "exited with code 0", 0}};
  EXPECT_EQ(fleet_->TakeEnds().size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(procs.parent_path()));
}

TEST_F(JobFleetTest, AProgramThatCannotBeRunIsAFailureWithoutLastWords) {
  std::filesystem::create_directories(folder_ / "logs");
  ASSERT_TRUE(WriteFileAtomically(folder_ / "logs/worker3.log", "of an earlier one\n").ok());
  StartWorker(WorkerId(3), {});
  ProcessExit exit{ProcessHandle(1), ProcessKind::kWorker, 3, false, true, "cannot run it", 127};
  exit.has_run = false;
  launcher_.exits = {exit};
  const std::vector<proto::ProcessEnd> ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_TRUE(ends[0].is_failure);
  EXPECT_EQ(ends[0].description, "cannot run it");
  EXPECT_EQ(ends[0].last_words, "");
}

/// A server that is to leave, and the process that waits for its place.
TEST_F(JobFleetTest, TwoProcessesOfOneServerAreToldApartByTheirLaunches) {
  ScriptedJournal journal;
  JobFleet::Options options = options_;
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
TEST_F(JobFleetTest, AWorkerThatIsStartedAgainIsKilledFirstAndBothEndsAreTold) {
  ScriptedJournal journal;
  JobFleet::Options options = options_;
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

TEST_F(JobFleetTest, AWorkerOfKubernetesIsAPodThatFindsItsTokenInTheSecret) {
  JobFleet::Options options = options_;
  options.job_name = "demo";
  options.launch.launcher = proto::LauncherKind::kKubernetes;
  options.launch.term_grace_s = 25;
  options.launch.kubernetes.image = "spotps:1";
  options.launch.kubernetes.context = "far";
  options.launch.kubernetes.programs = "/opt/spotps";
  options.launch.kubernetes.wait_s = 9;
  Make(options);
  proto::WorkerGroup group;
  group.threads = 4;
  StartWorker(WorkerId(3), group);
  StartWorker(WorkerId(4), group);
  ASSERT_EQ(launcher_.started.size(), 2U);
  const LaunchSpec& spec = launcher_.started[0];
  EXPECT_TRUE(spec.gets_credentials) << "logins of clouds use them";
  const std::vector<std::string>& arguments = spec.arguments;
  EXPECT_THAT(
      arguments,
      testing::IsSupersetOf(
          {"kubernetes", "--context", "far", "--wait-s", "9", "/opt/spotps/ps_worker"}));
  // Before the program's own words: the agent reads the token here, the program there.
  const auto rest = std::ranges::find(arguments, "--");
  EXPECT_THAT(std::vector(arguments.begin(), rest), testing::Contains(token_file_));
  EXPECT_THAT(std::vector(rest, arguments.end()), testing::Contains("/run/spotps/token"));
  const std::string& pod = *(std::ranges::find(arguments, "--pod") + 1);
  EXPECT_THAT(pod, HasSubstr(R"("name":"demo-worker3-)"));
  EXPECT_THAT(pod, HasSubstr(R"("terminationGracePeriodSeconds":25)"));
  EXPECT_THAT(pod, HasSubstr(R"("cpu":"4")"));
  // One run, two Pods.
  const auto run_of = [](const std::string& text) {
    const size_t at = text.find(R"("spotps.dev/run":")");
    return at == std::string::npos ? "" : text.substr(at, 40);
  };
  const std::vector<std::string>& others = launcher_.started[1].arguments;
  const std::string& other = *(std::ranges::find(others, "--pod") + 1);
  EXPECT_NE(run_of(pod), "");
  EXPECT_EQ(run_of(pod), run_of(other));
  EXPECT_NE(pod, other);
}

TEST_F(JobFleetTest, AWorkerOfSlurmIsAJobWithItsProcessors) {
  JobFleet::Options options = options_;
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

TEST_F(JobFleetTest, AWorkerIsStartedInItsZone) {
  JobFleet::Options options = options_;
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

TEST_F(JobFleetTest, AStartIsToldWhenItIsOrderedIfThereIsAPlace) {
  ManualTime time;
  time.now += std::chrono::seconds(7);
  std::vector<proto::WorkerStart> starts;
  JobFleet::Options options = options_;
  options.time = &time;
  options.on_start = [&](const proto::WorkerStart& start) { starts.push_back(start); };
  options.launch.launcher = proto::LauncherKind::kSsh;
  options.launch.hosts = {{"h1", 1, "a"}, {"h2", 1, "b"}};
  Make(options);
  proto::WorkerGroup group;
  group.type = "g4dn.xlarge";
  group.zones = {"b"};
  StartWorker(WorkerId(0), group);
  StartWorker(WorkerId(1), group);
  ASSERT_EQ(starts.size(), 1U) << "zone b is full";
  EXPECT_EQ(starts[0].launch, LaunchId(1));
  EXPECT_EQ(starts[0].type, "g4dn.xlarge");
  EXPECT_EQ(starts[0].zone, "b");
  EXPECT_EQ(starts[0].asked, time.now);
  EXPECT_FALSE(starts[0].machine_up.has_value());

  options.launch.launcher = proto::LauncherKind::kLocal;
  Make(options);
  StartWorker(WorkerId(0), {});
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[1].type, "local");
  fleet_->Adopt(std::vector<proto::LaunchRecord>{{ProcessKind::kWorker, 3, LaunchId(9), 77, 5}});
  EXPECT_EQ(starts.size(), 2U) << "nobody knows since when it is there";
}

TEST_F(JobFleetTest, AHostThatTakesNobodyIsNoFailureOfTheWorkerAndIsLeftOut) {
  JobFleet::Options options = options_;
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

TEST_F(JobFleetTest, AWorkerLearnsTheLeastDurationOfItsSteps) {
  proto::WorkerGroup group;
  group.step_ms = 12.5;
  StartWorker(WorkerId(0), group);
  EXPECT_THAT(
      launcher_.started[0].arguments, testing::IsSupersetOf({"--emulate-step-us", "12500"}));
  EXPECT_EQ(launcher_.started[0].program, folder_ / "ps_worker");
}

TEST_F(JobFleetTest, AWorkerLearnsWhomToAskForNotices) {
  proto::WorkerGroup group;
  StartWorker(WorkerId(0), group);
  EXPECT_THAT(launcher_.started[0].arguments, testing::Not(testing::Contains("--notices")));
  group.notices = proto::NoticeService::kAzure;
  StartWorker(WorkerId(1), group);
  EXPECT_THAT(launcher_.started[1].arguments, testing::IsSupersetOf({"--notices", "azure"}));
}

TEST_F(JobFleetTest, KillingASeatKillsItAlone) {
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

TEST_F(JobFleetTest, KillingAServerKillsAllThatItStartedOfIt) {
  EXPECT_FALSE(fleet_->HasServer(0)) << "somebody else may have started one";
  StartServer(0);
  StartServer(1);
  StartServer(0);  // the one that takes its place
  StartWorker(WorkerId(0), {});
  EXPECT_TRUE(fleet_->HasServer(0));
  EXPECT_FALSE(fleet_->HasServer(2));
  fleet_->KillServer(0, LaunchId());
  EXPECT_THAT(launcher_.killed, ElementsAre(1U, 3U));
  launcher_.exits = {
      {ProcessHandle(1), ProcessKind::kServer, 0, true, false, "killed by signal 9 (Killed)"},
      {ProcessHandle(3), ProcessKind::kServer, 0, true, false, "killed by signal 9 (Killed)"}};
  EXPECT_EQ(fleet_->TakeEnds().size(), 2U);
  EXPECT_FALSE(fleet_->HasServer(0));
  fleet_->KillServer(0, LaunchId());
  EXPECT_THAT(launcher_.killed, ElementsAre(1U, 3U));
}

TEST_F(JobFleetTest, TheProcessThatTakesAServersPlaceIsKeptWhenTheServerIsKilled) {
  StartServer(0);
  StartServer(0);
  fleet_->KillServer(0, LaunchId(2));
  EXPECT_THAT(launcher_.killed, ElementsAre(1U));
}

TEST_F(JobFleetTest, AnEndNamesTheLaunchAndTheLastLineOfOneThatFailed) {
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

TEST_F(JobFleetTest, AFailureToStartIsAnEndToo) {
  launcher_.fails = true;
  StartServer(4);
  const auto ends = fleet_->TakeEnds();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].kind, ProcessKind::kServer);
  EXPECT_EQ(ends[0].index, 4U);
  EXPECT_EQ(ends[0].launch, LaunchId(1));
  EXPECT_EQ(ends[0].description, "no more processes");
}

TEST_F(JobFleetTest, TheJournalForgetsAProcessOnceItsEndWasActedOn) {
  ScriptedJournal journal;
  JobFleet::Options options = options_;
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

TEST_F(JobFleetTest, AdoptedProcessesAreItsOwnAndThoseThatAreOverAreEnds) {
  ScriptedJournal journal;
  JobFleet::Options options = options_;
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

}  // namespace
}  // namespace ps::provisioner
