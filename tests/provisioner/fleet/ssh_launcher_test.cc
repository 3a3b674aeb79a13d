// Processes over ssh, with a real sshd of 127.0.0.1.

#include <fmt/core.h>
#include <poll.h>

#include "provisioner/fleet/agent_exit.h"
#include "provisioner/fleet/launch_check.h"
#include "provisioner/fleet/local_process.h"
#include "tests/provisioner/fleet/agent_place.h"

namespace ps::provisioner {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kToken = "a-token-that-nobody-else-sees";

class SshPlace final : public AgentPlace {
 public:
  std::string Open(const std::string& directory) override {
    directory_ = directory;
    PS_CHECK(
        WriteFileAtomically(directory + "/token", std::string(kToken) + "\n$second line`\n", 0600)
            .ok());
    return script_.Start("sshd.sh", directory);
  }

  LaunchSpec Of(LaunchSpec spec) const override { return On("127.0.0.1", std::move(spec)); }

  LaunchSpec On(const std::string& host, LaunchSpec spec) const {
    return Agent(
        std::move(spec),
        PS_BIN_DIR "/ps_agent",
        {"--launcher",
         "ssh",
         "--host",
         host,
         "--ssh-config",
         directory_ + "/ssh_config",
         "--token-file",
         directory_ + "/token"});
  }

  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

std::unique_ptr<Place> MakeSshPlace() {
  return std::make_unique<SshPlace>();
}

INSTANTIATE_TEST_SUITE_P(Ssh, LauncherConformance, ::testing::Values(&MakeSshPlace));

class SshLauncherTest : public LauncherConformance {
 protected:
  static const SshPlace& place() { return static_cast<const SshPlace&>(*place_); }

  LaunchSpec On(const std::string& host, const std::string& script) const {
    LaunchSpec spec;
    spec.program = "/bin/sh";
    spec.arguments = {"-c", script};
    spec.log_path = log_path();
    return place().On(host, spec);
  }

  static size_t CopiesOn() {
    const std::filesystem::path cache = place().directory() + "/cache/spotps";
    const auto files = std::filesystem::recursive_directory_iterator(cache);
    return static_cast<size_t>(std::count_if(
        begin(files), end(files), [](const auto& entry) { return entry.is_regular_file(); }));
  }
};

TEST_P(SshLauncherTest, AProgramIsCopiedOnceAndAgainWhenItDiffers) {
  const std::string program = directory_ / "tool";
  LaunchSpec spec;
  spec.program = program;
  spec.log_path = log_path();
  spec = place_->Of(spec);
  size_t copies = 0;
  for (const int code : {4, 5}) {
    const std::string text = fmt::format("#!/bin/sh\nexit {}\n", code);
    ASSERT_TRUE(WriteFileAtomically(program, text, 0755).ok());
    EXPECT_EQ(ExitOf(spec).code, code);
    const size_t now = CopiesOn();
    EXPECT_GT(now, copies);
    EXPECT_EQ(ExitOf(spec).code, code);
    EXPECT_EQ(CopiesOn(), now) << "it was there";
    copies = now;
  }
}

TEST_P(SshLauncherTest, ACopyThatWasCutIsMadeAgain) {
  EXPECT_EQ(ExitOf(Shell("exit 4")).code, 4);
  const std::string cache = place().directory() + "/cache/spotps";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache)) {
    if (entry.path().filename() == "sh") {
      std::filesystem::resize_file(entry.path(), 100);
    }
  }
  EXPECT_EQ(ExitOf(Shell("exit 4")).code, 4);
}

TEST_P(SshLauncherTest, TheTokenComesByStdinAndIsInNoCommandLineAndNoEnvironment) {
  ASSERT_TRUE(launcher_
                  ->Start(Shell(
                      "IFS= read -r t; IFS= read -r u; echo \"got $t $u\"; echo $$ > " + PidPath() +
                      "; exec sleep 100"))
                  .ok());
  AwaitPid();
  size_t looked = 0;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    for (const char* const file : {"/cmdline", "/environ"}) {
      const Result<std::string> text = ReadFile(process.path().string() + file);
      if (text.ok()) {
        EXPECT_THAT(*text, Not(HasSubstr(kToken))) << process.path();
        ++looked;
      }
    }
  }
  EXPECT_GT(looked, 2U);
  while (Log().find(fmt::format("got {} $second line`\n", kToken)) == std::string::npos) {
    Nap();
  }
}

TEST_P(SshLauncherTest, AHostThatTakesNobodyIsNamedWithTheReason) {
  const ProcessExit exit = ExitOf(On("no-such-host.invalid", "exit 0"));
  EXPECT_EQ(exit.code, kNotStartedExit);
  EXPECT_THAT(
      Log(),
      AllOf(
          HasSubstr("ps_agent: no-such-host.invalid: not started: "),
          HasSubstr("; try: ssh no-such-host.invalid true")));
}

TEST_P(SshLauncherTest, AHostThatNeverAnswersIsGivenUp) {
  const std::string config = directory_ / "hanging";
  ASSERT_TRUE(WriteFileAtomically(config, "Host *\n  ProxyCommand sleep 100\n").ok());
  LaunchSpec spec = On("127.0.0.1", "exit 0");
  std::replace(
      spec.arguments.begin(), spec.arguments.end(), place().directory() + "/ssh_config", config);
  spec.arguments.insert(spec.arguments.begin(), {"--answer-s", "1"});
  EXPECT_EQ(ExitOf(spec).code, kNotStartedExit);
  EXPECT_THAT(Log(), HasSubstr("ps_agent: 127.0.0.1: no"));
}

TEST_P(SshLauncherTest, AHostThatVanishesTakesItsProcessAlong) {
  const auto handle = launcher_->Start(Endless());
  ASSERT_TRUE(handle.ok()) << handle.status();
  const pid_t pid = AwaitPid();
  KillSessionsOf(place().directory() + "/sshd.pid");
  EXPECT_EQ(AwaitExit().code, kLostExit);
  EXPECT_THAT(
      Log(), EndsWith("ps_agent: 127.0.0.1: the connection was lost, and with it the process\n"));
  AwaitEndOf(pid);
}

TEST_P(SshLauncherTest, AHostThatLacksWhatTheProgramNeedsStartsNothing) {
  LaunchSpec spec = On("127.0.0.1", "echo started");
  spec.arguments.insert(spec.arguments.begin(), {"--needs", directory_ / "not there"});
  EXPECT_EQ(ExitOf(spec).code, kNotStartedExit);
  EXPECT_THAT(
      Log(),
      AllOf(
          HasSubstr("ps_agent: 127.0.0.1: there is no " + directory_ / "not there"),
          Not(HasSubstr("started\n"))));
  spec.arguments[1] = directory_.path();
  EXPECT_EQ(ExitOf(spec).code, 0);
}

TEST_P(SshLauncherTest, PlacesOfServersAreTriedBeforehand) {
  proto::JobConfig config;
  config.servers.launcher = proto::LauncherKind::kSsh;
  config.servers.hosts = {{"127.0.0.1"}};
  config.launch.ssh_config = place().directory() + "/ssh_config";
  config.run.directory = directory_ / "runs/not/made/yet";
  const auto check = [&config] {
    return std::string(CheckServerPlaces(config, std::chrono::seconds(30)).message());
  };
  EXPECT_EQ(check(), "");
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path())) << "what it asked for has gone";
  config.servers.hosts.push_back({"no-such-host.invalid"});
  EXPECT_THAT(
      check(),
      AllOf(
          HasSubstr("no server can be started on no-such-host.invalid of servers.hosts: "),
          HasSubstr("; try: ssh no-such-host.invalid true")));

  // A host with another disk: what it runs sees another folder in that place.
  config.servers.hosts.pop_back();
  ASSERT_TRUE(
      WriteFileAtomically(directory_ / "ssh", "#!/bin/sh\necho Welcome\necho absent\n", 0755).ok());
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (directory_.path() + ":" + path).c_str(), 1);
  EXPECT_THAT(
      check(),
      HasSubstr(
          "127.0.0.1 of servers.hosts does not have this machine's folder " + directory_.path()));
  ::setenv("PATH", path.c_str(), 1);
  config.checkpoint.enabled = false;
  EXPECT_EQ(check(), "");
}

TEST_P(SshLauncherTest, AnAgentSaysWhereItsProcessIs) {
  const auto handle = launcher_->Start(Endless());
  ASSERT_TRUE(handle.ok()) << handle.status();
  std::string host;  // once the agent's program runs, which Start does not wait for
  for (int tries = 0; tries < 1000 && host.empty(); ++tries) {
    ::poll(nullptr, 0, 10);
    host = ArgumentOf(launcher_->pid(*handle), "--host");
  }
  EXPECT_EQ(host, "127.0.0.1");
  EXPECT_EQ(ArgumentOf(launcher_->pid(*handle), "--no-such-flag"), "");
}

INSTANTIATE_TEST_SUITE_P(Ssh, SshLauncherTest, ::testing::Values(&MakeSshPlace));

}  // namespace
}  // namespace ps::provisioner
