// Pods of Kubernetes.

#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "provisioner/fleet/agent_kind.h"
#include "provisioner/fleet/kubernetes/kubernetes_agent.h"
#include "provisioner/fleet/kubernetes/kubernetes_check.h"
#include "provisioner/fleet/kubernetes/pod_text.h"
#include "ps/base/file.h"

namespace ps::provisioner {
namespace {

constexpr size_t kPodTokenBytesMax = size_t{16} << 10;
constexpr uint64_t kPodWaitSeconds = 45;
constexpr uint64_t kPodWaitSecondsMax = 86'400;

constexpr const char* kOwnNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

class Kubernetes final : public AgentKind {
 public:
  std::string_view name() const override { return "kubernetes"; }

  std::vector<std::string> programs() const override { return {"kubectl"}; }

  std::string_view package() const override {
    return "kubectl (Debian's package kubernetes-client, or your cloud's)";
  }

  /// That the cluster would take such a Pod and its Secret.
  Status CheckServerPlaces(const proto::JobConfig& config, Duration limit) const override {
    PodPlan plan;
    plan.kind = proto::ProcessKind::kServer;
    plan.cpus = config.servers.shards_per_server;
    return CheckPods(plan, config.servers.kubernetes, "servers", limit);
  }

  Status CheckWorkerPlaces(const proto::JobConfig& config, Duration limit) const override {
    PodPlan plan;
    plan.cpus = config.workers.empty() ? 1 : config.workers.front().threads;
    return CheckPods(plan, config.launch.kubernetes, "launch", limit);
  }

  bool has_hosts() const override { return false; }

  /// It has room for all; it is left out for a while after it has refused one.
  HostTable ServerHosts(const proto::ServerConfig& /*servers*/) const override {
    return HostTable({{std::string(name()), UINT32_MAX}}, "servers.launcher");
  }

  AgentCall CallFor(
      const RemoteProcess& process,
      const proto::LaunchConfig& launch,
      const proto::ServerConfig& servers) const override {
    const bool is_worker = process.kind == proto::ProcessKind::kWorker;
    const proto::KubernetesConfig& kubernetes = is_worker ? launch.kubernetes : servers.kubernetes;
    const PodPlan plan{
        process.kind,
        process.index,
        process.launch,
        process.run,
        process.job,
        process.cpus,
        is_worker ? launch.term_grace_s : servers.term_grace_s};
    AgentCall call{
        {"--pod",
         PodText(plan, kubernetes),
         "--token-file",
         process.token_file,
         "--log-file",
         process.log_path,
         "--wait-s",
         std::to_string(kubernetes.wait_s)},
        std::string(kPodTokenFile)};
    if (!kubernetes.kubeconfig.empty()) {
      call.flags.insert(call.flags.end(), {"--kubeconfig", kubernetes.kubeconfig});
    }
    if (!kubernetes.context.empty()) {
      call.flags.insert(call.flags.end(), {"--context", kubernetes.context});
    }
    call.program_directory = kubernetes.programs;
    // kubectl's logins of clouds use them. They do not get into the Pod.
    call.gets_credentials = true;
    return call;
  }

  std::vector<ManualFlag> flags() const override {
    return {
        {"--pod", "JSON", "kubernetes: the Pod, without its command. Required there."},
        {"--kubeconfig", "FILE", "kubernetes: of clusters and logins. Default: kubectl's own."},
        {"--context", "NAME", "kubernetes: which of them. Default: the current one."},
        {"--namespace-file",
         "FILE",
         "kubernetes: where ps_agent, if it is in a Pod itself, finds that Pod's namespace. "
         "Default: "
         "where Kubernetes puts it."},
        {"--wait-s",
         "N",
         "kubernetes: a Pod that does not run after so long is given up. Default: 45."}};
  }

  Result<AgentWork> WorkFor(
      const Flags& flags, std::string program, std::vector<std::string> arguments) const override {
    KubernetesJob job;
    PS_ASSIGN(job.pod, flags.Text("pod"));
    PS_TRY(IdentityOf(job.pod).status());
    PS_ASSIGN(const std::string token_file, flags.Text("token-file"));
    PS_ASSIGN(job.token, ReadSmallFile(token_file, kPodTokenBytesMax));
    PS_ASSIGN(const std::string log_path, flags.Text("log-file"));
    job.folder = std::filesystem::absolute(log_path).parent_path().string();
    job.login = {flags.TextOr("kubeconfig", ""), flags.TextOr("context", "")};
    if (!job.login.kubeconfig.empty()) {  // kubectl runs in another folder
      job.login.kubeconfig = std::filesystem::absolute(job.login.kubeconfig).string();
    }
    job.namespace_file = flags.TextOr("namespace-file", kOwnNamespaceFile);
    job.needs = flags.TextOr("needs", "");
    PS_ASSIGN(job.answer_limit, AnswerLimit(flags));
    uint64_t wait_s = kPodWaitSeconds;
    if (flags.Has("wait-s")) {
      PS_ASSIGN(wait_s, flags.Number("wait-s", 1, kPodWaitSecondsMax));
    }
    job.wait = std::chrono::seconds(wait_s);
    job.arguments = std::move(arguments);
    job.arguments.insert(job.arguments.begin(), std::move(program));
    return AgentWork(
        [job = std::move(job)](const AgentWishes& wishes) { return RunByKubernetes(job, wishes); });
  }
};

}  // namespace

const AgentKind& KubernetesKind() {
  static const Kubernetes kind;
  return kind;
}

}  // namespace ps::provisioner
