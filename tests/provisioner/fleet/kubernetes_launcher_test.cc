// Processes as Pods, with the real kubectl and a server of these tests in the place of a cluster.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>

#include "provisioner/fleet/agent_exit.h"
#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/kubernetes/pod_text.h"
#include "provisioner/fleet/launch_check.h"
#include "tests/provisioner/fleet/agent_place.h"

namespace ps::provisioner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRun = "0123456789abcdef";

class KubernetesPlace final : public AgentPlace {
 public:
  std::string Open(const std::string& directory) override {
    directory_ = directory;
    ::setenv("KUBECONFIG", (directory + "/kubeconfig").c_str(), 1);
    const Status token = WriteFileAtomically(directory + "/token", "secret-of-the-run\n");
    return token.ok() ? script_.Start("kubernetes_server.py", directory)
                      : std::string(token.message());
  }

  LaunchSpec Of(LaunchSpec spec) const override { return With({}, std::move(spec)); }

  /// A Pod of its own each time.
  LaunchSpec With(const proto::KubernetesConfig& kubernetes, LaunchSpec spec) const {
    PodPlan plan;
    plan.index = 7;
    plan.launch = LaunchId(++launches_);
    plan.run = kRun;
    plan.job = "Some_job";
    plan.grace_s = 5;
    proto::KubernetesConfig with_image = kubernetes;
    if (with_image.image.empty()) {
      with_image.image = "spotps:1";
    }
    return Agent(
        std::move(spec),
        PS_BIN_DIR "/ps_agent",
        {"--launcher",
         "kubernetes",
         "--pod",
         PodText(plan, with_image),
         "--token-file",
         directory_ + "/token",
         "--log-file",
         // So that all tests share one watch of the cluster, as a run's agents do.
         directory_ + "/agents.log",
         "--wait-s",
         std::to_string(with_image.wait_s)});
  }

  const std::string& directory() const { return directory_; }

  static std::string LastPod() { return fmt::format("some-job-worker7-{}-01234567", launches_); }

 private:
  std::string directory_;
  inline static uint64_t launches_ = 0;
};

std::unique_ptr<Place> MakeKubernetesPlace() {
  return std::make_unique<KubernetesPlace>();
}

INSTANTIATE_TEST_SUITE_P(Kubernetes, LauncherConformance, ::testing::Values(&MakeKubernetesPlace));

class KubernetesLauncherTest : public LauncherConformance {
 protected:
  void TearDown() override {
    for (const char* const name : {"faults", "hidden", "quota", "forbidden"}) {
      std::filesystem::remove(ServerFile(name));
    }
  }

  static const KubernetesPlace& place() { return static_cast<const KubernetesPlace&>(*place_); }

  static std::string ServerFile(const std::string& name) {
    return place().directory() + "/" + name;
  }

  static void Tell(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(ServerFile(name), text).ok());
  }

  /// That of the last test goes within a second; the next one begins with a list.
  static void AwaitNoKeeper() {
    const auto has_socket = [](const auto& entry) {
      return std::filesystem::exists(entry.path() / "socket");
    };
    while (
        std::ranges::any_of(std::filesystem::directory_iterator(place().directory()), has_socket)) {
      Nap();
    }
  }

  /// See kubernetes_server.py. Each test's own: a fault that was used is not used again.
  static void SetFaults(const std::string& lines) {
    static std::atomic<int> number = 0;
    AwaitNoKeeper();
    Tell("faults", std::string(static_cast<size_t>(++number), '\n') + lines);
  }

  /// The requests of one method whose path has `part`.
  static int64_t CountRequests(const std::string& method, const std::string& part) {
    std::ifstream file(ServerFile("requests"));
    int64_t count = 0;
    for (std::string line; std::getline(file, line);) {
      count += line.starts_with(method + " ") && line.find(part) != std::string::npos ? 1 : 0;
    }
    return count;
  }

  LaunchSpec With(const proto::KubernetesConfig& kubernetes, const std::string& script) const {
    LaunchSpec spec;
    spec.program = "/bin/sh";
    spec.arguments = {"-c", script};
    spec.log_path = log_path();
    return place().With(kubernetes, spec);
  }

  static std::string Kubectl(std::vector<std::string> words, const std::string& input = "") {
    words.insert(words.begin(), "kubectl");
    const Result<std::string> answer = RunCommand(words, input, std::chrono::seconds(30));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : "";
  }

  static std::string Pods() { return Kubectl({"get", "--raw", "/api/v1/namespaces/default/pods"}); }

  /// Nothing is left.
  static void AwaitNoPod() {
    while (Pods().find(KubernetesPlace::LastPod()) != std::string::npos) {
      Nap();
    }
  }

  void ExpectExit(const LaunchSpec& spec, int code, const std::string& words) {
    EXPECT_EQ(ExitOf(spec).code, code);
    EXPECT_THAT(Log(), HasSubstr(words));
    AwaitNoPod();
  }

  void AwaitLog(const std::string& words) const {
    while (true) {
      const Result<std::string> log = ReadFile(log_path());
      if (log.ok() && log->find(words) != std::string::npos) {
        return;
      }
      Nap();
    }
  }
};

TEST_P(KubernetesLauncherTest, TheTokenIsInTheSecretAlone) {
  LaunchSpec spec = With({}, "cat \"$0\"");
  spec.arguments.emplace_back(kPodTokenFile);
  EXPECT_EQ(ExitOf(spec).code, 0);
  EXPECT_THAT(Log(), HasSubstr("secret-of-the-run"));
  for (const std::string& word : spec.arguments) {
    EXPECT_THAT(word, Not(HasSubstr("secret-of")));
  }
}

/// Nothing is left that could delete it but the agents of other Pods.
TEST_P(KubernetesLauncherTest, APodWhoseAgentIsGoneIsDeletedAndNoOther) {
  SetFaults("99 GET watch=1 cut 0.3\n");
  const auto lost = launcher_->Start(Endless());
  ASSERT_TRUE(lost.ok());
  AwaitPid();
  const std::string lost_pod = KubernetesPlace::LastPod();
  LaunchSpec other = With({}, "sleep 3; exit 3");
  other.log_path = directory_ / "other.log";
  ASSERT_TRUE(launcher_->Start(other).ok());
  while (Pods().find(KubernetesPlace::LastPod()) == std::string::npos) {
    Nap();
  }
  // The agent's two processes; what brings the log dies with them.
  const int64_t front = launcher_->pid(*lost);
  const std::string children = ReadFile(fmt::format("/proc/{0}/task/{0}/children", front)).value();
  ASSERT_EQ(::kill(static_cast<pid_t>(std::stol(children)), SIGKILL), 0);
  EXPECT_EQ(AwaitExit().description, "killed by signal 9 (Killed)");
  while (Pods().find(lost_pod) != std::string::npos) {
    Nap();
  }
  EXPECT_EQ(AwaitExit().code, 3);
}

/// psctl is a Pod of the same namespace, whose name is its host's: the cluster clears away after
/// it.
TEST_P(KubernetesLauncherTest, APodThatMakesPodsOwnsThem) {
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  const std::string path = "/api/v1/namespaces/default/pods";
  const std::string made = Kubectl(
      {"create", "--raw", path, "-f", "-"},
      fmt::format(
          R"({{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{}"}},"spec":{{"containers":)"
          R"([{{"name":"x","image":"x","command":["sleep","100"]}}]}}}})",
          host.data()));
  const std::string uid = made.substr(made.find(R"("uid": ")") + 8, 36);
  ASSERT_TRUE(WriteFileAtomically(directory_ / "namespace", "default").ok());
  LaunchSpec spec = With({}, "echo up; exec sleep 100");
  spec.arguments.insert(spec.arguments.begin(), {"--namespace-file", directory_ / "namespace"});
  const auto handle = launcher_->Start(spec);
  ASSERT_TRUE(handle.ok());
  AwaitLog("up\n");
  const std::string pod = Kubectl({"get", "--raw", path + "/" + KubernetesPlace::LastPod()});
  EXPECT_THAT(pod, HasSubstr(fmt::format(R"("name": "{}", "uid": "{}")", host.data(), uid)));
  ASSERT_TRUE(launcher_->Kill(*handle).ok());
  AwaitExit();
  Kubectl({"delete", "--raw", path + "/" + host.data(), "-f", "-"}, R"({"gracePeriodSeconds": 0})");
}

/// With all that a job may ask for.
TEST_P(KubernetesLauncherTest, TheSchemasOfTheLastFiveVersionsTakeWhatIsMade) {
  proto::JobConfig config;
  config.launch.launcher = proto::LauncherKind::kKubernetes;
  proto::KubernetesConfig& kubernetes = config.launch.kubernetes;
  kubernetes.image = "spotps:1";
  kubernetes.image_pull_secret = "pull";
  kubernetes.selector = "pool=spot,a/b=";
  kubernetes.tolerations = {"spot", "a=b", "a=b:NoSchedule"};
  kubernetes.service_account = "trainer";
  kubernetes.priority_class = "low";
  kubernetes.cpus = 0.5F;
  kubernetes.memory = "1.5Gi";
  kubernetes.gpus = 1;
  kubernetes.volumes = {"shared:/shared"};
  EXPECT_EQ(CheckWorkerPlaces(config, std::chrono::seconds(30)).message(), "");
  EXPECT_EQ(ExitOf(With({}, "exit 3")).code, 3);
  // That of the build tree, where scripts/setup.sh has made one.
  const std::string own = "build/venv/bin/python3";
  const std::string command = fmt::format(
      "{} tests/provisioner/fleet/validate_objects.py {} > {}",
      std::filesystem::exists(own) ? own : "python3",
      ServerFile("objects"),
      directory_ / "said");
  const int status = std::system(command.c_str());
  const std::string said = ReadFile(directory_ / "said").value();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << said;
  }
  EXPECT_EQ(status, 0) << said;
}

/// The API is asked as often for many as for one, but for what each is made, read and deleted by.
TEST_P(KubernetesLauncherTest, ManyPodsAreWatchedOnce) {
  constexpr int kPods = 12;
  AwaitNoKeeper();
  const int64_t watches = CountRequests("GET", "watch=1");
  const int64_t lists = CountRequests("GET", "limit=500 ");
  const int64_t others = CountRequests("GET", "/pods/some-job") + CountRequests("POST", "/") +
                         CountRequests("DELETE", "/");
  for (int i = 0; i < kPods; ++i) {
    ASSERT_TRUE(launcher_->Start(With({}, "sleep 2; exit 3")).ok());
  }
  for (int ended = 0; ended < kPods;) {
    for (const ProcessExit& exit : launcher_->PollExits()) {
      EXPECT_EQ(exit.code, 3);
      ++ended;
    }
    Nap();
  }
  EXPECT_EQ(CountRequests("GET", "watch=1") - watches, 1);
  EXPECT_EQ(CountRequests("GET", "limit=500 ") - lists, 1) << "its first part";
  // Two creations, a log and what comes after it, a deletion.
  EXPECT_LE(
      CountRequests("GET", "/pods/some-job") + CountRequests("POST", "/") +
          CountRequests("DELETE", "/") - others,
      5 * kPods);
}

// Answers that are late, lost or none.

TEST_P(KubernetesLauncherTest, ABusyServerIsAskedAgainAfterTheTimeThatItNames) {
  SetFaults("1 POST /pods$ status 429 1\n1 POST /secrets status 503\n1 DELETE /pods/ status 429\n");
  ExpectExit(With({}, "exit 3"), 3, "Pod " + KubernetesPlace::LastPod());
}

TEST_P(KubernetesLauncherTest, ACreationWhoseAnswerIsLostMakesOnePod) {
  SetFaults("1 POST /pods$ lose\n1 POST /secrets lose\n");
  const int64_t made = CountRequests("POST", "/pods");
  ExpectExit(With({}, "echo ran; exit 3"), 3, "ran\n");
  EXPECT_EQ(CountRequests("POST", "/pods") - made, 2);
  const std::string log = Log();
  EXPECT_EQ(log.find("ran\n"), log.rfind("ran\n"));
}

TEST_P(KubernetesLauncherTest, APodOfThatNameThatIsAnothersIsLeftAlone) {
  const LaunchSpec spec = With({}, "exit 0");
  std::string other =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + KubernetesPlace::LastPod() +
      R"("},"spec":{"containers":[{"name":"x","image":"x","command":["sleep","100"]}]}})";
  Kubectl({"create", "--raw", "/api/v1/namespaces/default/pods", "-f", "-"}, other);
  EXPECT_EQ(ExitOf(spec).code, kNotStartedExit);
  EXPECT_THAT(Log(), HasSubstr("Kubernetes took no Pod: pods \"" + KubernetesPlace::LastPod()));
  EXPECT_THAT(Pods(), HasSubstr(KubernetesPlace::LastPod()));
}

TEST_P(KubernetesLauncherTest, ConflictsAreTriedAgain) {
  SetFaults("2 POST /pods$ status 409\n2 DELETE /pods/ status 409\n");
  ExpectExit(With({}, "exit 3"), 3, "Pod ");
}

TEST_P(KubernetesLauncherTest, APodThatIsShownLateIsNotLost) {
  Tell("hidden", "7");
  ExpectExit(With({}, "sleep 8; exit 3"), 3, "Pod ");
}

/// Watches that end, break in the middle of a line, and begin too late; lists that fail.
TEST_P(KubernetesLauncherTest, AWatchThatBreaksIsFollowedByAList) {
  SetFaults(
      "2 GET watch=1 cut 0.3\n1 GET watch=1 break\n2 GET watch=1 expire\n"
      "1 GET watch=1 status 410\n1 GET limit= status 500\n1 GET limit= status 410\n");
  const int64_t lists = CountRequests("GET", "limit=500 ");
  ExpectExit(With({}, "sleep 3; exit 3"), 3, "Pod ");
  EXPECT_GE(CountRequests("GET", "limit=500 ") - lists, 6) << "one after each";
}

TEST_P(KubernetesLauncherTest, AListThatLacksAPodOnceIsNoEnd) {
  SetFaults(
      "20 GET watch=1 cut 0.2\n1 GET limit= none\n1 GET limit= omit\n1 GET limit= none\n"
      "1 GET limit= omit\n1 GET limit= none\n9 GET limit= omit\n");
  ExpectExit(With({}, "sleep 3; exit 3"), 3, "Pod ");
}

TEST_P(KubernetesLauncherTest, ALogGoesOnAfterABreakWithoutALineTwice) {
  SetFaults("3 GET /log cut 0.3\n");
  ExpectExit(With({}, "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.2; done"), 0, "line 1\n");
  EXPECT_THAT(Log(), HasSubstr("line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\n"));
}

TEST_P(KubernetesLauncherTest, AProxyThatIsKilledIsFollowedByAnother) {
  const auto handle = launcher_->Start(With({}, "echo first; sleep 3; echo second; exit 3"));
  ASSERT_TRUE(handle.ok());
  AwaitLog("first\n");
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const Result<std::string> words = ReadFile(process.path().string() + "/cmdline");
    std::error_code error;
    const auto folder = std::filesystem::read_symlink(process.path() / "cwd", error).string();
    if (words.ok() && words->find("--unix-socket=socket") != std::string::npos &&
        folder.starts_with(place().directory())) {
      ::kill(static_cast<pid_t>(std::stol(process.path().filename())), SIGKILL);
    }
  }
  EXPECT_EQ(AwaitExit().code, 3);
  EXPECT_THAT(Log(), HasSubstr("first\nsecond\n"));
}

// Ends.

TEST_P(KubernetesLauncherTest, AnEvictedPodGetsItsNoticeAndIsLostNotFailed) {
  const auto handle = launcher_->Start(
      With({}, "trap 'echo noticed; exit 7' TERM; echo up; while :; do sleep 0.02; done"));
  ASSERT_TRUE(handle.ok());
  AwaitLog("up\n");
  Kubectl(
      {"create",
       "--raw",
       "/api/v1/namespaces/default/pods/" + KubernetesPlace::LastPod() + "/eviction",
       "-f",
       "-"},
      "{}");
  EXPECT_EQ(AwaitExit().code, kLostExit);
  EXPECT_THAT(
      Log(),
      AllOf(
          HasSubstr("noticed\n"),
          HasSubstr("ended: it was taken back: EvictionByEvictionAPI: Eviction API: evicting")));
}

TEST_P(KubernetesLauncherTest, APodThatLeavesAtItsNoticeEndsCleanly) {
  const auto handle =
      launcher_->Start(With({}, "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done"));
  ASSERT_TRUE(handle.ok());
  AwaitLog("up\n");
  Kubectl(
      {"create",
       "--raw",
       "/api/v1/namespaces/default/pods/" + KubernetesPlace::LastPod() + "/eviction",
       "-f",
       "-"},
      "{}");
  EXPECT_TRUE(AwaitExit().is_clean);
}

TEST_P(KubernetesLauncherTest, APodThatSomebodyDeletesAtOnceIsLost) {
  const auto handle = launcher_->Start(With({}, "echo up; exec sleep 100"));
  ASSERT_TRUE(handle.ok());
  AwaitLog("up\n");
  Kubectl(
      {"delete",
       "--raw",
       "/api/v1/namespaces/default/pods/" + KubernetesPlace::LastPod(),
       "-f",
       "-"},
      R"({"gracePeriodSeconds": 0})");
  EXPECT_EQ(AwaitExit().code, kLostExit);
  EXPECT_THAT(Log(), HasSubstr("ended: somebody deleted it"));
}

TEST_P(KubernetesLauncherTest, APodThatTakesTooMuchMemoryHasFailedAndSaysSo) {
  proto::KubernetesConfig kubernetes;
  kubernetes.image = "oom";
  ExpectExit(
      With(kubernetes, "echo up; exec sleep 100"),
      1,
      "took more memory than it may (OOMKilled); give it more by kubernetes.memory");
}

TEST_P(KubernetesLauncherTest, APodThatLacksWhatTheProgramNeedsStartsNothing) {
  LaunchSpec spec = With({}, "echo started");
  spec.arguments.insert(spec.arguments.begin(), {"--needs", directory_ / "not there"});
  ExpectExit(spec, kNotStartedExit, "there is no " + directory_ / "not there" + " in the Pod");
  EXPECT_THAT(Log(), Not(HasSubstr("started\n")));
}

// Pods that don't start.

TEST_P(KubernetesLauncherTest, APodWithoutANodeIsGivenUpWithTheReason) {
  proto::KubernetesConfig kubernetes;
  kubernetes.selector = "pool=none";
  kubernetes.wait_s = 2;
  ExpectExit(
      With(kubernetes, "exit 0"),
      kNotStartedExit,
      "did not run within 2 s (kubernetes.wait_s): no node takes it: Unschedulable: 0/3 nodes");
}

TEST_P(KubernetesLauncherTest, AnImageThatCannotBePulledIsGivenUpWithTheReason) {
  proto::KubernetesConfig kubernetes;
  kubernetes.image = "never-pulled:1";
  kubernetes.wait_s = 2;
  ExpectExit(
      With(kubernetes, "exit 0"),
      kNotStartedExit,
      "ImagePullBackOff: Back-off pulling image \"never-pulled:1\"; mend kubernetes.image");
}

TEST_P(KubernetesLauncherTest, AnImageThatIsNoneIsGivenUpAtOnce) {
  proto::KubernetesConfig kubernetes;
  kubernetes.image = "invalid-name";
  kubernetes.wait_s = 3600;
  ExpectExit(With(kubernetes, "exit 0"), kNotStartedExit, "did not run: InvalidImageName");
}

TEST_P(KubernetesLauncherTest, AQuotaIsSaidAndNothingIsRetried) {
  Tell("quota", "0");
  const int64_t asked = CountRequests("POST", "/pods");
  ExpectExit(
      With({}, "exit 0"), kNotStartedExit, "exceeded quota: small, requested: pods=1, used: pods=");
  EXPECT_THAT(Log(), HasSubstr("ask for a larger quota of the namespace, or for fewer"));
  EXPECT_EQ(CountRequests("POST", "/pods") - asked, 1);
}

TEST_P(KubernetesLauncherTest, ANamespaceThatIsNotThereIsNamed) {
  proto::KubernetesConfig kubernetes;
  kubernetes.name_space = "missing";
  LaunchSpec spec = With(kubernetes, "exit 0");
  spec.arguments.insert(spec.arguments.begin(), {"--answer-s", "3"});
  ExpectExit(
      spec,
      kNotStartedExit,
      "namespaces \"missing\" not found (404); make the namespace, or mend kubernetes.namespace");
}

TEST_P(KubernetesLauncherTest, ALoginThatIsNotValidIsSaid) {
  LaunchSpec spec = With({}, "exit 0");
  spec.arguments.insert(spec.arguments.begin(), {"--context", "stranger", "--answer-s", "3"});
  ExpectExit(spec, kNotStartedExit, "Unauthorized (401); the login is not valid");
}

TEST_P(KubernetesLauncherTest, AContextThatIsNotThereIsSaid) {
  LaunchSpec spec = With({}, "exit 0");
  spec.arguments.insert(spec.arguments.begin(), {"--context", "nowhere", "--answer-s", "3"});
  ExpectExit(spec, kNotStartedExit, "context \"nowhere\" does not exist");
}

TEST_P(KubernetesLauncherTest, APodThatWaitsIsDeletedWhenItIsNotWanted) {
  proto::KubernetesConfig kubernetes;
  kubernetes.selector = "pool=none";
  const auto handle = launcher_->Start(With(kubernetes, "exit 0"));
  ASSERT_TRUE(handle.ok());
  AwaitLog("waits: no node takes it");
  ASSERT_TRUE(launcher_->Kill(*handle).ok());
  AwaitExit();
  AwaitNoPod();
}

// Beforehand.

TEST_P(KubernetesLauncherTest, WhatTheClusterThinksIsAskedBeforehandAndNothingIsMade) {
  proto::JobConfig config;
  config.launch.launcher = proto::LauncherKind::kKubernetes;
  config.launch.kubernetes.image = "spotps:1";
  config.servers.launcher = proto::LauncherKind::kKubernetes;
  config.servers.kubernetes.image = "spotps:1";
  const auto workers = [&] {
    return std::string(CheckWorkerPlaces(config, std::chrono::seconds(30)).message());
  };
  const auto servers = [&] {
    return std::string(CheckServerPlaces(config, std::chrono::seconds(30)).message());
  };
  const std::string before = Pods();
  EXPECT_EQ(workers(), "");
  EXPECT_EQ(servers(), "");
  EXPECT_EQ(Pods(), before);

  Tell("forbidden", "get/pods/log");
  EXPECT_EQ(
      workers(),
      "the login for launch.kubernetes may not get pods/log in the namespace default; give it the "
      "rights that docs/kubernetes.md lists");
  Tell("quota", "0");
  EXPECT_THAT(
      servers(),
      AllOf(
          HasSubstr("Kubernetes would take no Pod of servers.kubernetes: kubectl failed"),
          HasSubstr("exceeded quota: small")));
  config.launch.kubernetes.context = "stranger";
  EXPECT_THAT(workers(), HasSubstr("Kubernetes would take no Pod of launch.kubernetes: kubectl"));
}

INSTANTIATE_TEST_SUITE_P(
    Kubernetes, KubernetesLauncherTest, ::testing::Values(&MakeKubernetesPlace));

}  // namespace
}  // namespace ps::provisioner
