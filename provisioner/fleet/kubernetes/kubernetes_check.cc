#include "provisioner/fleet/kubernetes/kubernetes_check.h"

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/kubernetes/kube_api.h"
#include "provisioner/fleet/kubernetes/pod_watch.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {
namespace {

struct Right {
  const char* verb;
  const char* resource;
  const char* subresource;
};

// Creations are tried.
constexpr Right kRights[] = {
    {"get", "pods", ""},
    {"list", "pods", ""},
    {"watch", "pods", ""},
    {"delete", "pods", ""},
    {"get", "pods", "log"}};

std::string ReviewText(const Right& right, const std::string& name_space) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("apiVersion", "authorization.k8s.io/v1");
  json.Field("kind", "SelfSubjectAccessReview");
  json.BeginObject("spec");
  json.BeginObject("resourceAttributes");
  json.Field("namespace", name_space);
  json.Field("verb", right.verb);
  json.Field("resource", right.resource);
  if (*right.subresource != '\0') {
    json.Field("subresource", right.subresource);
  }
  json.EndObject();
  json.EndObject();
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace

Status CheckPods(
    PodPlan plan,
    const proto::KubernetesConfig& kubernetes,
    std::string_view section,
    Duration limit) {
  plan.run = "check";
  plan.job = "check";
  const std::vector<std::string> kubectl =
      KubectlWords({kubernetes.kubeconfig, kubernetes.context});
  const auto create = [&](const std::string& path, const std::string& object) {
    std::vector<std::string> words = kubectl;
    words.insert(words.end(), {"create", "--raw", path, "--filename", "-"});
    return RunCommand(words, object, limit);
  };
  const auto refused = [&](std::string_view what, const Status& why) {
    return Status::Unavailable(fmt::format(
        "Kubernetes would take no {} of {}.kubernetes: {}; mend it, or try: kubectl get pods",
        what,
        section,
        why.message()));
  };
  const std::string pod =
      WithCommand(PodText(plan, kubernetes), {kubernetes.programs + "/ps_worker"}, "");
  PS_ASSIGN(const PodIdentity identity, IdentityOf(PodText(plan, kubernetes)));
  const std::string& name_space = kubernetes.name_space;
  if (const Status status = create(KubePath(name_space, "pods") + "?dryRun=All", pod).status();
      !status.ok()) {
    return refused("Pod", status);
  }
  const std::string secret = SecretText(identity, "00000000-0000-0000-0000-000000000000", "token");
  if (const Status status =
          create(KubePath(name_space, "secrets") + "?dryRun=All", secret).status();
      !status.ok()) {
    return refused("Secret", status);
  }
  for (const Right& right : kRights) {
    const Result<std::string> answer = create(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ReviewText(right, name_space));
    if (!answer.ok()) {
      return refused("question", answer.status());
    }
    const Result<JsonValue> review = ParseJson(*answer, "answer");
    const JsonValue* const allowed = review.ok() ? review->At("status.allowed") : nullptr;
    if (allowed == nullptr || allowed->text != "true") {
      return Status::Unavailable(fmt::format(
          "the login for {}.kubernetes may not {} {}{}{} in the namespace {}; give it the rights "
          "that docs/kubernetes.md lists",
          section,
          right.verb,
          right.resource,
          *right.subresource == '\0' ? "" : "/",
          right.subresource,
          name_space));
    }
  }
  return Status::Ok();
}

}  // namespace ps::provisioner
