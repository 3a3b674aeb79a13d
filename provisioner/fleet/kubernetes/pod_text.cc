#include "provisioner/fleet/kubernetes/pod_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "ps/base/check.h"
#include "ps/json/json_value.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {
namespace {

// A text in JSON has no such characters: its quotes are written \".
constexpr std::string_view kNoCommand = R"("command":[])";
constexpr std::string_view kNoOwner = R"("ownerReferences":[])";
constexpr std::string_view kContainer = "spotps";
constexpr std::string_view kTokenVolume = "spotps-token";

std::string WithReplaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  PS_CHECK(at != std::string::npos) << "no " << from;
  return text.replace(at, from.size(), to);
}

/// What remains of a job's name in names of Kubernetes.
std::string JobPart(std::string_view job) {
  constexpr size_t kJobBytesMax = 24;
  std::string name;
  for (const char c : job.substr(0, kJobBytesMax)) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    const bool is_kept = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    name += is_upper ? static_cast<char>(c - 'A' + 'a') : is_kept ? c : '-';
  }
  const size_t begin = name.find_first_not_of('-');
  return begin == std::string::npos ? "spotps"
                                    : name.substr(begin, name.find_last_not_of('-') + 1 - begin);
}

void WriteLabels(const PodPlan& plan, JsonWriter* json) {
  json->BeginObject("labels");
  json->Field("app.kubernetes.io/name", "spotps");
  json->Field("spotps.dev/run", plan.run);
  json->Field("spotps.dev/kind", proto::ProcessKindName(plan.kind));
  json->Field("spotps.dev/index", std::to_string(plan.index));
  json->Field("spotps.dev/launch", std::to_string(plan.launch.value));
  json->EndObject();
}

/// "key=value:Effect", whose value and effect may be absent.
void WriteToleration(std::string_view text, JsonWriter* json) {
  const size_t colon = text.find(':');
  const std::string_view taint = text.substr(0, colon);
  const size_t equals = taint.find('=');
  json->BeginObject();
  json->Field("key", taint.substr(0, equals));
  json->Field("operator", equals == std::string_view::npos ? "Exists" : "Equal");
  if (equals != std::string_view::npos) {
    json->Field("value", taint.substr(equals + 1));
  }
  if (colon != std::string_view::npos) {
    json->Field("effect", text.substr(colon + 1));
  }
  json->EndObject();
}

void WriteSelector(std::string_view text, JsonWriter* json) {
  json->BeginObject("nodeSelector");
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
    const size_t equals = pair.find('=');
    json->Field(pair.substr(0, equals), pair.substr(equals + 1));
  }
  json->EndObject();
}

void WriteResources(
    const PodPlan& plan, const proto::KubernetesConfig& kubernetes, JsonWriter* json) {
  const bool has_memory = !kubernetes.memory.empty();
  const auto write_limits = [&] {
    if (has_memory) {
      json->Field("memory", kubernetes.memory);
    }
    if (kubernetes.gpus != 0) {
      json->Field(kubernetes.gpu_resource, std::to_string(kubernetes.gpus));
    }
  };
  json->BeginObject("resources");
  json->BeginObject("requests");
  json->Field(
      "cpu",
      kubernetes.cpus > 0 ? fmt::format("{:g}", kubernetes.cpus) : std::to_string(plan.cpus));
  write_limits();
  json->EndObject();
  if (has_memory || kubernetes.gpus != 0) {
    json->BeginObject("limits");
    write_limits();
    json->EndObject();
  }
  json->EndObject();
}

void WriteMount(std::string_view name, std::string_view path, bool is_read_only, JsonWriter* json) {
  json->BeginObject();
  json->Field("name", name);
  json->Field("mountPath", path);
  if (is_read_only) {
    json->Field("readOnly", true);
  }
  json->EndObject();
}

void WriteContainer(
    const PodPlan& plan, const proto::KubernetesConfig& kubernetes, JsonWriter* json) {
  json->BeginList("containers");
  json->BeginObject();
  json->Field("name", kContainer);
  json->Field("image", kubernetes.image);
  json->BeginList("command");
  json->EndList();
  WriteResources(plan, kubernetes, json);
  json->BeginList("volumeMounts");
  WriteMount(kTokenVolume, kPodTokenFolder, true, json);
  for (size_t i = 0; i < kubernetes.volumes.size(); ++i) {
    const std::string& volume = kubernetes.volumes[i];
    WriteMount(fmt::format("volume{}", i), volume.substr(volume.find(':') + 1), false, json);
  }
  json->EndList();
  json->EndObject();
  json->EndList();
}

void WriteVolumes(
    const PodPlan& plan, const proto::KubernetesConfig& kubernetes, JsonWriter* json) {
  json->BeginList("volumes");
  json->BeginObject();
  json->Field("name", kTokenVolume);
  json->BeginObject("secret");
  json->Field("secretName", PodName(plan));
  // Whoever the image's user is; the Pod has no other program.
  json->Field("defaultMode", 0444);
  json->EndObject();
  json->EndObject();
  for (size_t i = 0; i < kubernetes.volumes.size(); ++i) {
    json->BeginObject();
    json->Field("name", fmt::format("volume{}", i));
    json->BeginObject("persistentVolumeClaim");
    json->Field("claimName", kubernetes.volumes[i].substr(0, kubernetes.volumes[i].find(':')));
    json->EndObject();
    json->EndObject();
  }
  json->EndList();
}

/// Kubernetes puts variables in the place of $(NAME), and one $ in that of two.
std::string WithoutVariables(std::string_view word) {
  std::string text;
  for (const char c : word) {
    text += c == '$' ? std::string("$$") : std::string(1, c);
  }
  return text;
}

std::string JsonField(const JsonValue& json, std::string_view path) {
  const JsonValue* const value = json.At(path);
  return value == nullptr ? "" : value->text;
}

}  // namespace

std::string PodName(const PodPlan& plan) {
  return fmt::format(
      "{}-{}{}-{}-{}",
      JobPart(plan.job),
      proto::ProcessKindName(plan.kind),
      plan.index,
      plan.launch.value,
      plan.run.substr(0, 8));
}

std::string PodText(const PodPlan& plan, const proto::KubernetesConfig& kubernetes) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("apiVersion", "v1");
  json.Field("kind", "Pod");
  json.BeginObject("metadata");
  json.Field("name", PodName(plan));
  json.Field("namespace", kubernetes.name_space);
  WriteLabels(plan, &json);
  json.BeginList("ownerReferences");
  json.EndList();
  json.EndObject();
  json.BeginObject("spec");
  json.Field("restartPolicy", "Never");  // whoever runs the fleet replaces it
  json.Field("terminationGracePeriodSeconds", plan.grace_s);
  if (kubernetes.run_max_h > 0 && plan.kind == proto::ProcessKind::kWorker) {
    json.Field("activeDeadlineSeconds", uint64_t{kubernetes.run_max_h} * 3600);
  }
  json.Field("automountServiceAccountToken", false);
  json.Field("enableServiceLinks", false);
  if (!kubernetes.service_account.empty()) {
    json.Field("serviceAccountName", kubernetes.service_account);
  }
  if (!kubernetes.priority_class.empty()) {
    json.Field("priorityClassName", kubernetes.priority_class);
  }
  if (!kubernetes.image_pull_secret.empty()) {
    json.BeginList("imagePullSecrets");
    json.BeginObject();
    json.Field("name", kubernetes.image_pull_secret);
    json.EndObject();
    json.EndList();
  }
  if (!kubernetes.selector.empty()) {
    WriteSelector(kubernetes.selector, &json);
  }
  if (!kubernetes.tolerations.empty()) {
    json.BeginList("tolerations");
    for (const std::string& toleration : kubernetes.tolerations) {
      WriteToleration(toleration, &json);
    }
    json.EndList();
  }
  WriteContainer(plan, kubernetes, &json);
  WriteVolumes(plan, kubernetes, &json);
  json.EndObject();
  json.EndObject();
  return std::move(json).Take();
}

std::string WithCommand(
    std::string pod, const std::vector<std::string>& words, const std::string& needs) {
  std::vector<std::string> all;
  if (!needs.empty()) {
    // The program takes the shell's place, so that signals reach it.
    all = {
        "/bin/sh",
        "-c",
        fmt::format("[ -e \"$0\" ] || exit {}; exec \"$@\"", kPodLacksExit),
        needs};
  }
  all.insert(all.end(), words.begin(), words.end());
  JsonWriter json(JsonForm::kOneLine);
  json.BeginList();
  for (const std::string& word : all) {
    json.Value(WithoutVariables(word));
  }
  json.EndList();
  return WithReplaced(std::move(pod), kNoCommand, R"("command":)" + std::move(json).Take());
}

std::string WithOwner(std::string pod, std::string_view owner, std::string_view uid) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginList();
  json.BeginObject();
  json.Field("apiVersion", "v1");
  json.Field("kind", "Pod");
  json.Field("name", owner);
  json.Field("uid", uid);
  json.EndObject();
  json.EndList();
  return WithReplaced(std::move(pod), kNoOwner, R"("ownerReferences":)" + std::move(json).Take());
}

Result<PodIdentity> IdentityOf(const std::string& pod) {
  PS_ASSIGN(const JsonValue json, ParseJson(pod, "--pod"));
  const JsonValue* const labels = json.At("metadata.labels");
  PodIdentity identity;
  identity.name = JsonField(json, "metadata.name");
  identity.name_space = JsonField(json, "metadata.namespace");
  if (labels != nullptr) {
    for (const JsonValue& label : labels->children) {
      if (label.key == "spotps.dev/run") {
        identity.run = label.text;
      } else if (label.key == "spotps.dev/launch") {
        identity.launch = label.text;
      }
    }
  }
  const std::string grace = JsonField(json, "spec.terminationGracePeriodSeconds");
  std::from_chars(grace.data(), grace.data() + grace.size(), identity.grace_s);
  const bool is_whole = !identity.name.empty() && !identity.name_space.empty() &&
                        !identity.run.empty() && !identity.launch.empty() &&
                        pod.find(kNoCommand) != std::string::npos &&
                        pod.find(kNoOwner) != std::string::npos;
  if (!is_whole) {
    return Status::InvalidArgument(
        "--pod is no Pod of spotps; allowed: what psctl makes of a job's kubernetes section");
  }
  return identity;
}

std::string SecretText(const PodIdentity& pod, std::string_view uid, std::string_view token) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("apiVersion", "v1");
  json.Field("kind", "Secret");
  json.BeginObject("metadata");
  json.Field("name", pod.name);
  json.Field("namespace", pod.name_space);
  json.BeginObject("labels");
  json.Field("app.kubernetes.io/name", "spotps");
  json.Field("spotps.dev/run", pod.run);
  json.Field("spotps.dev/launch", pod.launch);
  json.EndObject();
  json.BeginList("ownerReferences");
  json.EndList();
  json.EndObject();
  json.Field("type", "Opaque");
  json.BeginObject("stringData");
  json.Field("token", token);
  json.EndObject();
  json.EndObject();
  return WithOwner(std::move(json).Take(), pod.name, uid);
}

}  // namespace ps::provisioner
