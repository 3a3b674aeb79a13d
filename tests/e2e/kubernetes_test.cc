// Workers and servers as Pods, with the real kubectl and a server of the tests' in the place of a
// cluster: whole runs that are encrypted, whose Pods are taken away.

#include <regex>

#include "tests/e2e/support/elsewhere.h"

namespace ps::e2e {
namespace {

class KubernetesTest : public ElsewhereTest {
 protected:
  void OpenCluster() {
    Open("kubernetes_server.py");
    pods_ = fmt::format(
        R"("launcher": "kubernetes", "kubernetes": {{"image": "spotps:1", "programs": "{}",)"
        R"( "kubeconfig": "{}", "selector": "pool=spot"}})",
        ProgramPath("psctl").substr(0, ProgramPath("psctl").rfind('/')),
        place_folder_ / "kubeconfig");
    ::setenv("KUBECONFIG", (place_folder_ / "kubeconfig").c_str(), 1);
    job_.Set("launch", "{" + pods_ + R"(, "term_grace_s": 4})")
        .Set(
            "run",
            R"({"listen": "0.0.0.0", "advertise": "127.0.0.1", "tls": "on", "directory": ")" +
                job_.runs() + R"("})");
  }

  std::string Pods(const std::string& labels = "") const {
    return Shell(
        folder_,
        "kubectl get --raw '/api/v1/namespaces/default/pods?labelSelector=" + labels + "'");
  }

  /// Of the only Pod with these labels.
  std::string PodOf(const std::string& labels) const {
    const std::string pods = Pods(labels);
    std::smatch match;
    EXPECT_TRUE(std::regex_search(pods, match, std::regex(R"re("name": "(e2e[a-z0-9-]+)")re")))
        << pods;
    return match.empty() ? "" : match[1].str();
  }

  void Evict(const std::string& pod) const {
    Shell(
        folder_,
        "echo '{}' | kubectl create -f - --raw /api/v1/namespaces/default/pods/" + pod +
            "/eviction");
  }

  void DeleteAtOnce(const std::string& pod) const {
    Shell(
        folder_,
        "echo '{\"gracePeriodSeconds\": 0}' | kubectl delete -f - --raw "
        "/api/v1/namespaces/default/pods/" +
            pod);
  }

  std::string pods_;  // fields of launch or servers
};

TEST_F(KubernetesTest, OnePodIsEvictedAndOneKilledAndEachSampleIsCountedOnce) {
  OpenCluster();
  if (IsSkipped()) {
    return;
  }
  TrainRun run(job_, options_);
  AwaitWorker(&run);
  Evict(PodOf("spotps.dev/kind=worker,spotps.dev/index=0"));
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    return status.revocations_noticed == 1 && Alive(status).size() == 2;
  })) << "SIGTERM is the notice, and another Pod has its place";
  DeleteAtOnce(PodOf("spotps.dev/kind=worker,spotps.dev/index=1"));
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    return status.revocations_unnoticed == 1 && Alive(status).size() == 2;
  }));
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(summary["revocations_noticed"].number(), 1);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 1);
  EXPECT_EQ(summary["joins"].number(), 4);
  EXPECT_TRUE(WaitUntil([&] { return !Contains(Pods(), "\"name\": \"e2e"); }));
  for (const char* const log : {"/coordinator.log", "/logs/worker0.log", "/logs/worker1.log"}) {
    EXPECT_THAT(ReadText(run.Root() + log), testing::Not(testing::HasSubstr(run.Token())));
  }
}

/// Before anything is made.
TEST_F(KubernetesTest, CheckSaysWhatTheClusterWouldRefuse) {
  OpenCluster();
  if (IsSkipped()) {
    return;
  }
  job_.Write();
  EXPECT_EQ(Psctl({"check", job_.path()}).end, ProcessEnd{});
  WriteText(place_folder_ / "quota", "0");
  const Output full = Psctl({"check", job_.path()});
  EXPECT_EQ(full.end, ProcessEnd{1});
  EXPECT_THAT(
      full.err,
      testing::ContainsRegex("would take no Pod of launch.kubernetes: .*exceeded quota: small"));
  WriteText(place_folder_ / "kubeconfig", "{}");
  const Output nowhere = Psctl({"check", job_.path()});
  EXPECT_EQ(nowhere.end, ProcessEnd{1});
  EXPECT_THAT(nowhere.err, testing::HasSubstr("would take no Pod of launch.kubernetes: kubectl"));
  EXPECT_THAT(
      Psctl({"check", job_.path(), "--set", "launch.kubernetes={}"}).err,
      testing::HasSubstr("launch.kubernetes.image is absent"));
}

/// Another coordinator keeps the Pods, and a server that is lost comes back from a checkpoint.
TEST_F(KubernetesTest, AServersPodIsKilledAndItsSuccessorGoesOn) {
  OpenCluster();
  if (IsSkipped()) {
    return;
  }
  job_.Set("servers", "{" + pods_ + "}").Set("checkpoint", R"({"every_s": 0.5})");
  TrainRun run(job_, options_);
  AwaitWorker(&run);
  ExpectThatAnotherCoordinatorKeepsAll(&run);
  const auto before = run.Status();
  ASSERT_TRUE(before.has_value());
  DeleteAtOnce(PodOf("spotps.dev/kind=server"));
  ASSERT_TRUE(run.WaitFor([&](const proto::JobStatus& status) {
    return status.shards.size() == 1 && status.shards[0].pid != before->shards[0].pid &&
           status.shards[0].state == proto::ShardRowState::kReady &&
           status.samples_counted > before->samples_counted + 256;
  }));
  StopCleanly(&run);
  EXPECT_THAT(
      ReadText(run.Root() + "/logs/server0.log"), testing::HasSubstr("ended: somebody deleted it"));
  EXPECT_TRUE(WaitUntil([&] { return !Contains(Pods(), "\"name\": \"e2e"); }));
}

TEST_F(KubernetesTest, OrphansInPodsEndThemselves) {
  OpenCluster();
  if (!IsSkipped()) {
    ExpectOrphansEnd("{" + pods_ + "}");
    EXPECT_TRUE(WaitUntil([&] { return !Contains(Pods(), "\"name\": \"e2e"); }));
  }
}

}  // namespace
}  // namespace ps::e2e
