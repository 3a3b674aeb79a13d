// The objects of Kubernetes that we make, and what those that it has mean.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "provisioner/fleet/agent_exit.h"
#include "provisioner/fleet/kubernetes/kube_api.h"
#include "provisioner/fleet/kubernetes/pod_log.h"
#include "provisioner/fleet/kubernetes/pod_state.h"
#include "provisioner/fleet/kubernetes/pod_text.h"
#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PodPlan SomePlan() {
  PodPlan plan;
  plan.kind = proto::ProcessKind::kServer;
  plan.index = 3;
  plan.launch = LaunchId(12);
  plan.run = "0123456789abcdef";
  plan.job = "My job_2.";
  plan.cpus = 2;
  plan.grace_s = 30;
  return plan;
}

JsonValue Parsed(const std::string& text) {
  Result<JsonValue> json = ParseJson(text, "test");
  EXPECT_TRUE(json.ok()) << json.status() << text;
  return json.ok() ? std::move(json).value() : JsonValue();
}

std::string At(const JsonValue& json, std::string_view path) {
  const JsonValue* const value = json.At(path);
  return value == nullptr ? "(absent)" : value->text;
}

TEST(PodTextTest, APodSaysWhatTheJobSays) {
  proto::KubernetesConfig kubernetes;
  kubernetes.image = "r.example/spotps:1";
  kubernetes.image_pull_secret = "pull";
  kubernetes.name_space = "ml";
  kubernetes.selector = "pool=spot,a.b/c=";
  kubernetes.tolerations = {"spot", "a=b", "c=d:NoSchedule", "e:NoExecute"};
  kubernetes.service_account = "trainer";
  kubernetes.priority_class = "low";
  kubernetes.cpus = 0.5F;
  kubernetes.memory = "4Gi";
  kubernetes.gpus = 2;
  kubernetes.volumes = {"shared:/shared", "data:/usr/share/data"};
  const std::string text = PodText(SomePlan(), kubernetes);
  const JsonValue pod = Parsed(text);
  EXPECT_EQ(At(pod, "metadata.name"), "my-job-2-server3-12-01234567");
  EXPECT_EQ(At(pod, "metadata.namespace"), "ml");
  EXPECT_THAT(text, HasSubstr(R"("spotps.dev/run":"0123456789abcdef")"));
  EXPECT_THAT(text, HasSubstr(R"("spotps.dev/kind":"server","spotps.dev/index":"3")"));
  EXPECT_EQ(At(pod, "spec.restartPolicy"), "Never");
  EXPECT_EQ(At(pod, "spec.terminationGracePeriodSeconds"), "30");
  EXPECT_EQ(At(pod, "spec.serviceAccountName"), "trainer");
  EXPECT_EQ(At(pod, "spec.priorityClassName"), "low");
  EXPECT_EQ(At(pod, "spec.imagePullSecrets[0].name"), "pull");
  EXPECT_EQ(At(pod, "spec.nodeSelector.pool"), "spot");
  EXPECT_THAT(text, HasSubstr(R"("a.b/c":"")"));
  EXPECT_THAT(
      text,
      HasSubstr(R"("tolerations":[{"key":"spot","operator":"Exists"},)"
                R"({"key":"a","operator":"Equal","value":"b"},)"
                R"({"key":"c","operator":"Equal","value":"d","effect":"NoSchedule"},)"
                R"({"key":"e","operator":"Exists","effect":"NoExecute"}])"));
  EXPECT_THAT(
      text,
      HasSubstr(R"("requests":{"cpu":"0.5","memory":"4Gi","nvidia.com/gpu":"2"},)"
                R"("limits":{"memory":"4Gi","nvidia.com/gpu":"2"}})"));
  EXPECT_EQ(At(pod, "spec.containers[0].volumeMounts[2].mountPath"), "/usr/share/data");
  EXPECT_EQ(At(pod, "spec.volumes[1].persistentVolumeClaim.claimName"), "shared");
}

TEST(PodTextTest, WhatTheJobDoesNotSayIsTheClusters) {
  proto::KubernetesConfig kubernetes;
  kubernetes.image = "spotps:1";
  const std::string text = PodText(SomePlan(), kubernetes);
  EXPECT_THAT(text, HasSubstr(R"("resources":{"requests":{"cpu":"2"}})"));
  for (const char* const field :
       {"serviceAccountName",
        "priorityClassName",
        "imagePullSecrets",
        "nodeSelector",
        "tolerations",
        "limits",
        "persistentVolumeClaim"}) {
    EXPECT_THAT(text, Not(HasSubstr(field)));
  }
}

TEST(PodTextTest, KubernetesEndsAWorkerThatNobodyEndsAndNoServer) {
  proto::KubernetesConfig kubernetes;
  kubernetes.image = "spotps:1";
  PodPlan plan = SomePlan();
  plan.kind = proto::ProcessKind::kWorker;
  EXPECT_EQ(At(Parsed(PodText(plan, kubernetes)), "spec.activeDeadlineSeconds"), "604800")
      << "a week, unless the job says another time";
  kubernetes.run_max_h = 0;
  EXPECT_THAT(PodText(plan, kubernetes), Not(HasSubstr("activeDeadlineSeconds")));
  kubernetes.run_max_h = 48;
  EXPECT_EQ(At(Parsed(PodText(plan, kubernetes)), "spec.activeDeadlineSeconds"), "172800");
  plan.kind = proto::ProcessKind::kServer;
  EXPECT_THAT(PodText(plan, kubernetes), Not(HasSubstr("activeDeadlineSeconds")));
}

TEST(PodTextTest, ACommandArrivesAsItIs) {
  proto::KubernetesConfig kubernetes;
  kubernetes.image = "spotps:1";
  const JsonValue pod = Parsed(
      WithCommand(PodText(SomePlan(), kubernetes), {"/usr/bin/x", "$(HOME)", "a \"b\""}, ""));
  EXPECT_EQ(At(pod, "spec.containers[0].command[0]"), "/usr/bin/x");
  EXPECT_EQ(At(pod, "spec.containers[0].command[1]"), "$$(HOME)") << "no variable is put in";
  EXPECT_EQ(At(pod, "spec.containers[0].command[2]"), "a \"b\"");
  const JsonValue with_needs =
      Parsed(WithCommand(PodText(SomePlan(), kubernetes), {"/usr/bin/x"}, "/shared"));
  EXPECT_EQ(At(with_needs, "spec.containers[0].command[3]"), "/shared");
  EXPECT_EQ(At(with_needs, "spec.containers[0].command[4]"), "/usr/bin/x");
}

TEST(PodTextTest, AnOwnerAndASecretNameThePodThatTheyGoWith) {
  proto::KubernetesConfig kubernetes;
  kubernetes.image = "spotps:1";
  const std::string text = PodText(SomePlan(), kubernetes);
  const JsonValue owned = Parsed(WithOwner(text, "coordinator-0", "u-1"));
  EXPECT_EQ(At(owned, "metadata.ownerReferences[0].name"), "coordinator-0");
  EXPECT_EQ(At(owned, "metadata.ownerReferences[0].uid"), "u-1");
  const Result<PodIdentity> identity = IdentityOf(text);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->grace_s, 30U);
  const JsonValue secret = Parsed(SecretText(*identity, "u-2", "line\nline"));
  EXPECT_EQ(At(secret, "kind"), "Secret");
  EXPECT_EQ(At(secret, "metadata.name"), At(Parsed(text), "metadata.name"));
  EXPECT_EQ(At(secret, "metadata.ownerReferences[0].uid"), "u-2");
  EXPECT_EQ(At(secret, "stringData.token"), "line\nline");
}

TEST(PodTextTest, OtherTextsAreNoPods) {
  for (const char* const text : {"", "{", "[]", "{}", R"({"metadata": {"name": "a"}})"}) {
    EXPECT_EQ(IdentityOf(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

/// A Pod whose status has these fields.
PodState StateOf(const std::string& status) {
  return ParsePod(Parsed(R"({"metadata": {"uid": "u"}, "status": {)" + status + "}}"));
}

PodState Ended(const std::string& terminated, const std::string& more = "") {
  return StateOf(
      R"("phase": "Failed", "containerStatuses": [{"state": {"terminated": {)" + terminated +
      "}}}]" + more);
}

constexpr const char* kDisruption =
    R"(, "conditions": [{"type": "DisruptionTarget", "status": "True", "reason":)"
    R"( "PreemptionByScheduler", "message": "preempting"}])";

TEST(PodStateTest, AStateIsReadBackAsItWasWritten) {
  PodState state = Ended(R"("exitCode": 3, "reason": "Error", "message": "a\nb")", kDisruption);
  state.is_absent = true;
  const Result<PodState> read = ReadPodState(PodStateText(state));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == state);
  EXPECT_FALSE(ReadPodState("{").ok());
}

TEST(PodStateTest, ARunningPodIsNoEnd) {
  const PodState state =
      StateOf(R"("phase": "Running", "containerStatuses": [{"state": {"running": {}}}])");
  EXPECT_TRUE(state.has_run);
  EXPECT_FALSE(IsPodEnd(state));
  EXPECT_FALSE(IsPodEnd(StateOf(R"("phase": "Unknown")"))) << "its node is silent";
  EXPECT_FALSE(IsPodEnd(StateOf("")));
}

TEST(PodStateTest, AnEndIsThatOfTheProgram) {
  EXPECT_EQ(MeaningOf(Ended(R"("exitCode": 0)"), "", false).end.code, 0);
  EXPECT_EQ(MeaningOf(Ended(R"("exitCode": 7)"), "", false).end.code, 7);
  EXPECT_EQ(MeaningOf(Ended(R"("exitCode": 137)"), "", false).end.signal, SIGKILL);
  EXPECT_EQ(MeaningOf(Ended(R"("exitCode": 139)"), "", false).end.signal, SIGSEGV);
  EXPECT_EQ(MeaningOf(Ended(R"("exitCode": 255)"), "", false).end.code, 255) << "no signal";
  EXPECT_EQ(MeaningOf(Ended(R"("exitCode": 147)"), "", false).end.code, 147) << "SIGSTOP ends none";
  EXPECT_EQ(MeaningOf(Ended(R"("exitCode": 256)"), "", false).end.code, 1) << "no success";
}

TEST(PodStateTest, TooMuchMemoryIsAFailureAlsoOfAPodThatIsTakenBack) {
  const PodEnd end =
      MeaningOf(Ended(R"("exitCode": 137, "reason": "OOMKilled")", kDisruption), "", false);
  EXPECT_EQ(end.end.code, 1);
  EXPECT_THAT(end.why, HasSubstr("kubernetes.memory"));
}

TEST(PodStateTest, APodThatIsTakenBackIsLostUnlessItsProgramSaidGoodbye) {
  const PodEnd lost = MeaningOf(Ended(R"("exitCode": 143)", kDisruption), "", false);
  EXPECT_EQ(lost.end.code, kLostExit);
  EXPECT_EQ(lost.why, "it was taken back: PreemptionByScheduler: preempting");
  EXPECT_EQ(MeaningOf(Ended(R"("exitCode": 0)", kDisruption), "", false).end.code, 0);
  for (const char* const reason :
       {"Evicted", "NodeShutdown", "Terminated", "Preempting", "DeadlineExceeded"}) {
    const PodState state = Ended(
        R"("exitCode": 1)", R"(, "reason": ")" + std::string(reason) + R"(", "message": "m")");
    EXPECT_EQ(MeaningOf(state, "", false).end.code, kLostExit) << reason;
  }
}

TEST(PodStateTest, APodThatNeverRanWasNotStarted) {
  const PodEnd end = MeaningOf(
      StateOf(R"("phase": "Failed", "reason": "OutOfcpu", "message": "no cpu")"), "", false);
  EXPECT_EQ(end.end.code, kNotStartedExit);
  EXPECT_EQ(end.why, "it was taken back: OutOfcpu: no cpu");
  EXPECT_EQ(
      MeaningOf(Ended(R"("exitCode": 128, "reason": "StartError")"), "", false).end.code,
      kNotStartedExit);
  EXPECT_EQ(MeaningOf(Ended(R"("exitCode": 125)"), "/shared", false).end.code, kNotStartedExit);
  EXPECT_EQ(MeaningOf(Ended(R"("exitCode": 125)"), "", false).end.code, 125);
}

/// A node that has lost a container invents its code.
TEST(PodStateTest, ACodeThatNobodyKnowsIsNoFailure) {
  const PodState state = Ended(R"("exitCode": 137, "reason": "ContainerStatusUnknown")");
  EXPECT_EQ(MeaningOf(state, "", false).end.code, kLostExit);
}

TEST(PodStateTest, APodThatIsGoneIsLostUnlessItWasAskedToGo) {
  PodState gone;
  gone.is_gone = true;
  EXPECT_EQ(MeaningOf(gone, "", false).end.code, kNotStartedExit);
  gone.has_run = true;
  EXPECT_EQ(MeaningOf(gone, "", false).end.code, kLostExit);
  EXPECT_EQ(MeaningOf(gone, "", true).end.signal, SIGTERM);
}

TEST(PodStateTest, WhatDelaysAPodIsSaid) {
  EXPECT_EQ(DelayOf(StateOf("")).why, "");
  EXPECT_EQ(
      DelayOf(StateOf(R"("conditions": [{"type": "PodScheduled", "status": "False",
                                         "reason": "Unschedulable", "message": "no room"}])"))
          .why,
      "no node takes it: Unschedulable: no room");
  const auto waiting = [](const std::string& reason) {
    return DelayOf(StateOf(
        R"("containerStatuses": [{"state": {"waiting": {"reason": ")" + reason + R"("}}}])"));
  };
  EXPECT_EQ(waiting("ContainerCreating").why, "");
  EXPECT_THAT(waiting("ErrImagePull").why, HasSubstr("mend kubernetes.image"));
  EXPECT_FALSE(waiting("ErrImagePull").is_hopeless) << "a registry may come back";
  EXPECT_TRUE(waiting("InvalidImageName").is_hopeless);
}

/// Whatever a server may send.
TEST(PodStateTest, AnyBytesMakeAStateThatIsReadBack) {
  const std::string whole =
      R"({"metadata":{"uid":"u"},"status":{"phase":"Failed","reason":"Evicted","conditions":[)"
      R"({"type":"PodScheduled","status":"False","reason":"r","message":"m"},)"
      R"({"type":"DisruptionTarget","status":"True","reason":"r"}],"containerStatuses":[)"
      R"({"state":{"terminated":{"exitCode":137,"reason":"OOMKilled","message":"m"}}}]}})";
  Random random(7);
  int parsed = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (uint64_t changes = 1 + random.Below(4); changes > 0; --changes) {
      text[random.Below(text.size())] = whole[random.Below(whole.size())];
    }
    const Result<JsonValue> json = ParseJson(text, "test");
    if (json.ok()) {
      ++parsed;
      const PodState state = ParsePod(*json);
      const Result<PodState> read = ReadPodState(PodStateText(state));
      ASSERT_TRUE(read.ok()) << text;
      EXPECT_TRUE(*read == state) << text;
      if (IsPodEnd(state)) {
        const AgentEnd end = MeaningOf(state, "", false).end;
        EXPECT_TRUE(end.signal >= 0 && end.signal <= SIGSYS) << text;
      }
    }
  }
  EXPECT_GT(parsed, 1000);
}

TEST(PodStateTest, StrangeObjectsAreEmptyStates) {
  for (const char* const text :
       {"[]",
        "1",
        R"({"status": 1})",
        R"({"status": {"containerStatuses": {}}})",
        R"({"status": {"conditions": [1, [], {"type": {}}], "containerStatuses": [[]]}})",
        R"({"metadata": {"uid": ["a"]}, "status": {"phase": {"a": "Failed"}}})"}) {
    EXPECT_FALSE(IsPodEnd(ParsePod(Parsed(text)))) << text;
  }
}

TEST(LogLinesTest, LinesThatWereThereAreLeftOutAfterABreak) {
  LogLines lines;
  EXPECT_EQ(lines.Add("2026-11-28T20:00:01.000000001Z one\n2026-11-28T20:00"), "one\n");
  EXPECT_EQ(lines.Add(":01.000000002Z tw"), "");
  EXPECT_EQ(lines.Add("o\n"), "two\n");
  EXPECT_EQ(lines.last_time(), "2026-11-28T20:00:01.000000002Z");
  EXPECT_EQ(lines.Break(), "");
  EXPECT_EQ(
      lines.Add("2026-11-28T20:00:01.000000001Z one\n2026-11-28T20:00:01.000000002Z two\n"
                "2026-11-28T20:00:01.000000003Z three\n"),
      "three\n");
  EXPECT_EQ(
      lines.Add("unable to read it\n2026-11-28T20:00:02.000000000Z \n"), "unable to read it\n\n");
  EXPECT_EQ(lines.Add("2026-11-28T20:00:03.000000000Z cut"), "");
  EXPECT_EQ(lines.Break(), "cut\n");
}

TEST(KubeWordsTest, ARefusalSaysWhatToDo) {
  const auto words = [](int status, const std::string& message) {
    return WordsOf({status, R"({"kind": "Status", "message": ")" + message + R"("})"});
  };
  EXPECT_EQ(
      words(403, "exceeded quota: q"),
      "exceeded quota: q (403); ask for a larger quota of the namespace, or for fewer or smaller "
      "Pods");
  EXPECT_THAT(words(403, "cannot create"), HasSubstr("docs/kubernetes.md lists the rights"));
  EXPECT_THAT(words(401, "Unauthorized"), HasSubstr("the login is not valid"));
  EXPECT_EQ(WordsOf({502, "bad gateway\nmore"}), "bad gateway (502)");
  EXPECT_EQ(WordsOf({500, ""}), "no reason (500)");
}

TEST(KubeWordsTest, AUrlHasNoOtherLetters) {
  EXPECT_EQ(UrlText("spotps.dev/run=a-1+ü"), "spotps.dev%2Frun%3Da-1%2B%C3%BC");
}

}  // namespace
}  // namespace ps::provisioner
