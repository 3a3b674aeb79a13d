#include "provisioner/fleet/kubernetes/kubernetes_agent.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <span>
#include <utility>

#include "provisioner/fleet/kubernetes/kube_api.h"
#include "provisioner/fleet/kubernetes/pod_log.h"
#include "provisioner/fleet/kubernetes/pod_state.h"
#include "provisioner/fleet/kubernetes/pod_text.h"
#include "ps/base/crc32c.h"
#include "ps/base/file.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// The cluster's own programs may be restarted meanwhile.
constexpr Duration kSilenceMax = std::chrono::minutes(5);
constexpr Duration kPodLook = std::chrono::milliseconds(100);
/// A run has an agent for each Pod, and most of the time nothing happens.
constexpr Duration kPodLookWhileRunning = std::chrono::milliseconds(400);
/// A Pod that nobody has seen, or that a list did not have, is asked for by its name so often. It
/// is gone when it was not there this many times: a cluster may be slow to show it.
constexpr Duration kAskAgain = std::chrono::seconds(5);
constexpr int kAskedMax = 3;
constexpr Duration kLogRest = std::chrono::seconds(5);
constexpr uint32_t kKillGraceSeconds = 1;

constexpr int kNotFound = 404;
constexpr int kConflict = 409;

std::string AnswerField(const std::string& json, std::string_view path) {
  const Result<JsonValue> tree = ParseJson(json, "answer");
  const JsonValue* const value = tree.ok() ? tree->At(path) : nullptr;
  return value == nullptr ? "" : value->text;
}

/// What the agents share that watch the same Pods by the same login.
std::string WatchFolder(const KubernetesJob& job, const PodIdentity& pod) {
  const std::string all =
      fmt::format("{}\n{}\n{}", job.login.kubeconfig, job.login.context, pod.name_space);
  return fmt::format(
      "{}/kubernetes-{:08x}", job.folder, Crc32c(std::as_bytes(std::span<const char>(all))));
}

class PodSession {
 public:
  PodSession(const KubernetesJob& job, const AgentWishes& wishes, PodIdentity identity)
      : job_(job),
        wishes_(wishes),
        identity_(std::move(identity)),
        pods_path_(KubePath(identity_.name_space, "pods")),
        pod_path_(pods_path_ + "/" + identity_.name),
        watch_(
            WatchFolder(job, identity_),
            job.login,
            identity_.name_space,
            identity_.run,
            job.answer_limit) {}

  AgentEnd Run() {
    if (const Status joined = watch_.Join(); !joined.ok()) {
      AgentSay(std::string(joined.message()));
      return {kNotStartedExit, 0};
    }
    api_.emplace(watch_.socket(), job_.answer_limit);
    const AgentEnd end = RunPod();
    watch_.Forget(identity_.name);
    return end;
  }

 private:
  AgentEnd RunPod() {
    Status made = AwaitCluster();
    if (made.ok()) {
      made = Make();
    }
    if (!made.ok()) {
      if (wish_ != AgentWish::kNone) {
        Delete(kKillGraceSeconds);
        return {0, wish_ == AgentWish::kStop ? SIGTERM : SIGKILL};
      }
      AgentSay(fmt::format("Kubernetes took no Pod: {}", made.message()));
      if (may_be_there_) {
        Delete(kKillGraceSeconds);
      }
      return {kNotStartedExit, 0};
    }
    made_ = SystemTime().Now();
    ask_at_ = made_ + kAskAgain;
    while (true) {
      switch (Await(log_.has_begun() && !is_stopped_ ? kPodLookWhileRunning : kPodLook)) {
        case AgentWish::kKill:
          Delete(kKillGraceSeconds);
          return {0, SIGKILL};
        case AgentWish::kStop:
          is_stopped_ = true;
          Delete(identity_.grace_s);
          break;
        case AgentWish::kNone:
          break;
      }
      if (const auto end = Look()) {
        return *end;
      }
    }
  }

  /// One that came during a call, or that comes within `limit`.
  AgentWish Await(Duration limit) {
    return wish_ != AgentWish::kNone ? std::exchange(wish_, AgentWish::kNone)
                                     : wishes_.Await(limit);
  }

  /// As KubeApi has it.
  bool Pause(Duration limit) {
    watch_.Keep();
    if (wish_ == AgentWish::kNone) {
      wish_ = wishes_.Await(limit);
    }
    return wish_ == AgentWish::kNone;
  }

  Result<KubeReply> Call(
      const std::string& method, const std::string& path, std::string_view body = {}) {
    return api_->Call(method, path, body, [this](Duration limit) { return Pause(limit); });
  }

  /// Errors: kUnavailable, with what kubectl or the cluster says instead.
  Status AwaitCluster() {
    const TimePoint by = SystemTime().Now() + job_.answer_limit;
    while (true) {
      watch_.Keep();
      const std::optional<Duration> silence = watch_.Silence();
      if (silence && *silence < job_.answer_limit) {
        return Status::Ok();
      }
      if (SystemTime().Now() > by) {
        const std::string complaint = watch_.Complaint();
        return Status::Unavailable(
            complaint.empty() ? "the cluster does not answer; try: kubectl get pods" : complaint);
      }
      if (!Pause(kPodLook)) {
        return Status::Cancelled("not wanted any more");
      }
    }
  }

  Status Make() {
    std::vector<std::string> words = job_.arguments;
    std::string pod = WithCommand(job_.pod, words, job_.needs);
    PS_TRY(AddOwner(&pod));
    PS_TRY(watch_.Want(identity_.name));
    may_be_there_ = true;
    PS_ASSIGN(const KubeReply reply, Post(pods_path_, pod));
    if (reply.status == kConflict) {
      PS_TRY(TakeOver(reply));
    } else if (!reply.is_ok()) {
      may_be_there_ = false;
      return Status::Unavailable(WordsOf(reply));
    } else {
      uid_ = AnswerField(reply.body, "metadata.uid");
    }
    const std::string path = KubePath(identity_.name_space, "secrets");
    PS_ASSIGN(const KubeReply secret, Post(path, SecretText(identity_, uid_, job_.token)));
    // One that is there was made by a call whose answer was lost.
    if (!secret.is_ok() && secret.status != kConflict) {
      return Status::Unavailable("no Secret for its token: " + WordsOf(secret));
    }
    AgentSay(fmt::format("Pod {} in {}", identity_.name, identity_.name_space));
    return Status::Ok();
  }

  /// A conflict that is no object of that name is between callers that count against one quota:
  /// it is asked again.
  Result<KubeReply> Post(const std::string& path, std::string_view object) {
    const TimePoint by = SystemTime().Now() + job_.answer_limit;
    while (true) {
      PS_ASSIGN(KubeReply reply, Call("POST", path, object));
      if (reply.status != kConflict || AnswerField(reply.body, "reason") == "AlreadyExists" ||
          SystemTime().Now() > by) {
        return reply;
      }
      if (!Pause(kPodLook)) {
        return Status::Cancelled("something else came up");
      }
    }
  }

  /// A coordinator that is a Pod of the cluster itself takes its Pods along.
  Status AddOwner(std::string* pod) {
    std::array<char, 256> host{};
    const Result<std::string> here = ReadSmallFile(job_.namespace_file, 256);
    if (!here.ok() || *here != identity_.name_space ||
        ::gethostname(host.data(), host.size() - 1) != 0) {
      return Status::Ok();
    }
    PS_ASSIGN(const KubeReply reply, Call("GET", pods_path_ + "/" + UrlText(host.data())));
    const std::string uid = reply.is_ok() ? AnswerField(reply.body, "metadata.uid") : "";
    if (!uid.empty()) {
      *pod = WithOwner(std::move(*pod), host.data(), uid);
    }
    return Status::Ok();
  }

  /// There is a Pod of this name: ours, when the answer to the call that made it was lost.
  Status TakeOver(const KubeReply& conflict) {
    PS_ASSIGN(const KubeReply reply, Call("GET", pod_path_));
    const Result<JsonValue> pod = ParseJson(reply.body, "answer");
    const JsonValue* const labels = pod.ok() ? pod->At("metadata.labels") : nullptr;
    const auto has = [&](std::string_view key, const std::string& value) {
      const JsonValue* const label = labels == nullptr ? nullptr : labels->Find(key);
      return label != nullptr && label->text == value;
    };
    if (!reply.is_ok() || !has("spotps.dev/run", identity_.run) ||
        !has("spotps.dev/launch", identity_.launch)) {
      may_be_there_ = false;
      return Status::Unavailable(WordsOf(conflict));
    }
    uid_ = AnswerField(reply.body, "metadata.uid");
    return Status::Ok();
  }

  /// Nothing while it waits or runs, as far as is known.
  std::optional<AgentEnd> Look() {
    watch_.Keep();
    if (const auto silence = watch_.Silence(); !silence || *silence > kSilenceMax) {
      AgentSay(fmt::format("the cluster says nothing any more: {}", watch_.Complaint()));
      return AgentEnd{kLostExit, 0};
    }
    std::optional<PodState> state = watch_.StateOf(identity_.name);
    if (!state || state->is_absent || (state->uid != uid_ && !uid_.empty())) {
      state = AskForIt();
    }
    if (!state) {
      return std::nullopt;
    }
    if (state->has_run && !log_.has_begun()) {
      log_.Begin(watch_, pod_path_, identity_.name, job_.answer_limit);
    }
    if (IsPodEnd(*state)) {
      return End(*state);
    }
    return state->has_run ? std::nullopt : LookAtDelay(*state);
  }

  /// Now and then: nothing in between, or without an answer.
  std::optional<PodState> AskForIt() {
    if (SystemTime().Now() < ask_at_) {
      return std::nullopt;
    }
    ask_at_ = SystemTime().Now() + kAskAgain;
    const Result<KubeReply> reply = Call("GET", pod_path_);
    if (!reply.ok()) {
      return std::nullopt;
    }
    const Result<JsonValue> pod = ParseJson(reply->body, "answer");
    if (reply->is_ok() && pod.ok()) {
      PodState state = ParsePod(*pod);
      absent_ = 0;
      if (state.uid == uid_) {
        return state;
      }
    } else if (reply->status != kNotFound) {
      return std::nullopt;
    }
    if (++absent_ < kAskedMax) {
      return std::nullopt;
    }
    PodState gone;
    gone.is_gone = true;
    gone.has_run = log_.has_begun();
    return gone;
  }

  std::optional<AgentEnd> LookAtDelay(const PodState& state) {
    const PodDelay delay = DelayOf(state);
    if (!delay.why.empty() && delay.why != told_delay_) {
      AgentSay(fmt::format("Pod {} waits: {}", identity_.name, delay.why));
      told_delay_ = delay.why;
    }
    const bool is_late = SystemTime().Now() - made_ > job_.wait;
    if (!is_late && !delay.is_hopeless) {
      return std::nullopt;
    }
    Delete(kKillGraceSeconds);
    AgentSay(fmt::format(
        "Pod {} did not run{}: {}",
        identity_.name,
        is_late ? fmt::format(" within {:.0f} s (kubernetes.wait_s)", Seconds(job_.wait)) : "",
        told_delay_.empty() ? "its node did not say why" : told_delay_));
    return AgentEnd{kNotStartedExit, 0};
  }

  AgentEnd End(const PodState& state) {
    log_.Finish(kLogRest);
    const PodEnd end = MeaningOf(state, job_.needs, is_stopped_);
    if (!state.is_gone) {
      Delete(kKillGraceSeconds);
    }
    if (!end.why.empty()) {
      AgentSay(fmt::format("Pod {} ended: {}", identity_.name, end.why));
    }
    return end.end;
  }

  /// Ours alone, never another Pod of its name. Its Secret goes with it. No wish is heard
  /// meanwhile but the one that the agent itself be gone, after which nothing is left to hear.
  void Delete(uint32_t grace_s) {
    const std::string body = fmt::format(
        R"({{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":{}{}}})",
        grace_s,
        uid_.empty() ? "" : fmt::format(R"(,"preconditions":{{"uid":"{}"}})", uid_));
    const TimePoint by = SystemTime().Now() + job_.answer_limit;
    const auto pause = [this](Duration limit) {
      watch_.Keep();
      const AgentWish wish = wishes_.Await(limit);
      wish_ = wish == AgentWish::kNone ? wish_ : wish;
      return true;
    };
    while (true) {
      const Result<KubeReply> reply = api_->Call("DELETE", pod_path_, body, pause);
      if (!reply.ok()) {
        AgentSay(fmt::format(
            "Pod {} may be there still: {}; try: kubectl --namespace {} delete pod {}",
            identity_.name,
            reply.status().message(),
            identity_.name_space,
            identity_.name));
        return;
      }
      if (reply->status != kConflict || IsAnother() || SystemTime().Now() > by) {
        if (!reply->is_ok() && reply->status != kNotFound && reply->status != kConflict) {
          AgentSay(fmt::format("Pod {}: {}", identity_.name, WordsOf(*reply)));
        }
        return;
      }
      pause(kPodLook);
    }
  }

  /// Whether the Pod of this name is not ours, or there is none.
  bool IsAnother() {
    const Result<KubeReply> reply =
        api_->Call("GET", pod_path_, "", [](Duration) { return false; });
    return reply.ok() && (reply->status == kNotFound ||
                          (reply->is_ok() && AnswerField(reply->body, "metadata.uid") != uid_));
  }

  const KubernetesJob& job_;
  const AgentWishes& wishes_;
  const PodIdentity identity_;
  const std::string pods_path_;
  const std::string pod_path_;
  PodWatch watch_;
  std::optional<KubeApi> api_;
  PodLog log_;
  std::string uid_;
  bool may_be_there_ = false;  // the call that makes it was sent
  bool is_stopped_ = false;
  AgentWish wish_ = AgentWish::kNone;  // that came during a call
  TimePoint made_{};
  TimePoint ask_at_{};
  int absent_ = 0;  // so often in a row it was not there
  std::string told_delay_;
};

}  // namespace

AgentEnd RunByKubernetes(const KubernetesJob& job, const AgentWishes& wishes) {
  Result<PodIdentity> identity = IdentityOf(job.pod);
  if (!identity.ok()) {
    AgentSay(std::string(identity.status().message()));
    return {kNotStartedExit, 0};
  }
  return PodSession(job, wishes, std::move(identity).value()).Run();
}

}  // namespace ps::provisioner
