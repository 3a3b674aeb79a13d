#include "provisioner/fleet/kubernetes/pod_state.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <type_traits>

#include "provisioner/fleet/kubernetes/pod_text.h"
#include "ps/base/text.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {
namespace {

constexpr int kSignalled = 128;  // a shell adds a signal's number to it

/// By which a node ends Pods that did nothing wrong.
constexpr std::array<std::string_view, 10> kTakenBack = {
    "DeadlineExceeded",  // kubernetes.run_max_h
    "Evicted",
    "NodeAffinity",
    "NodeLost",
    "NodeShutdown",
    "Preempting",
    "Shutdown",
    "Terminated",
    "TerminationByKubelet",
    "UnexpectedAdmissionError"};

/// Reasons of a container that waits, which no waiting ends.
constexpr std::array<std::string_view, 2> kHopeless = {"ErrImageNeverPull", "InvalidImageName"};

std::string FieldAt(const JsonValue& json, std::string_view path) {
  const JsonValue* const value = json.At(path);
  return value == nullptr || !value->children.empty() ? "" : value->text;
}

std::string ReasonAndMessage(const std::string& reason, const std::string& message) {
  return Printable(message.empty() ? reason : fmt::format("{}: {}", reason, message));
}

void ReadConditions(const JsonValue& pod, PodState* state) {
  const JsonValue* const conditions = pod.At("status.conditions");
  if (conditions == nullptr) {
    return;
  }
  for (const JsonValue& condition : conditions->children) {
    const std::string type = FieldAt(condition, "type");
    const std::string status = FieldAt(condition, "status");
    const std::string words =
        ReasonAndMessage(FieldAt(condition, "reason"), FieldAt(condition, "message"));
    if (type == "PodScheduled" && status == "False") {
      state->unscheduled = words;
    } else if (type == "DisruptionTarget" && status == "True") {
      state->disruption = words;
    }
  }
}

void ReadContainer(const JsonValue& container, PodState* state) {
  state->waiting = FieldAt(container, "state.waiting.reason");
  state->waiting_message = FieldAt(container, "state.waiting.message");
  state->has_run = container.At("state.running") != nullptr;
  const JsonValue* const end = container.At("state.terminated");
  if (end == nullptr) {
    return;
  }
  state->container_reason = FieldAt(*end, "reason");
  state->container_message = FieldAt(*end, "message");
  // A node that has lost a container says so, and knows no code.
  const std::string code = FieldAt(*end, "exitCode");
  state->is_over =
      std::from_chars(code.data(), code.data() + code.size(), state->code).ec == std::errc() &&
      state->container_reason != "ContainerStatusUnknown";
  state->has_run = true;
}

/// Each of the fields, for both directions.
template <typename State, typename Visit>
void VisitState(State& state, Visit visit) {
  visit("uid", state.uid);
  visit("phase", state.phase);
  visit("reason", state.reason);
  visit("message", state.message);
  visit("unscheduled", state.unscheduled);
  visit("disruption", state.disruption);
  visit("waiting", state.waiting);
  visit("waiting_message", state.waiting_message);
  visit("container_reason", state.container_reason);
  visit("container_message", state.container_message);
  visit("has_run", state.has_run);
  visit("is_over", state.is_over);
  visit("code", state.code);
  visit("is_gone", state.is_gone);
  visit("is_absent", state.is_absent);
}

void Read(const std::string& text, std::string* value) {
  *value = text;
}

void Read(const std::string& text, bool* value) {
  *value = text == "true";
}

void Read(const std::string& text, int* value) {
  std::from_chars(text.data(), text.data() + text.size(), *value);
}

PodEnd NoPodRan(std::string why) {
  return {{kNotStartedExit, 0}, std::move(why)};
}

/// Why the Pod was taken back; empty when nobody says that it was.
std::string TakenBack(const PodState& state) {
  if (!state.disruption.empty()) {
    return "it was taken back: " + state.disruption;
  }
  const bool is_taken_back = std::ranges::find(kTakenBack, state.reason) != kTakenBack.end() ||
                             state.reason.starts_with("OutOf");
  return is_taken_back ? "it was taken back: " + ReasonAndMessage(state.reason, state.message) : "";
}

/// The end of its container.
PodEnd MeaningOfCode(const PodState& state, const std::string& needs) {
  if (state.container_reason == "StartError" || state.container_reason == "ContainerCannotRun") {
    return NoPodRan(fmt::format(
        "the program can't run there: {}; is it in the image under this path "
        "(kubernetes.programs)?",
        Printable(state.container_message)));
  }
  if (state.code == kPodLacksExit && !needs.empty()) {
    return NoPodRan(fmt::format(
        "there is no {} in the Pod; the folder of the checkpoints has to be shared under one path, "
        "by a volume that Pods can mount together (kubernetes.volumes)",
        needs));
  }
  if (EndsProcess(state.code - kSignalled)) {
    return {{0, state.code - kSignalled}, ""};
  }
  return {{ExitCodeOf(state.code), 0}, ""};
}

/// Its texts are shown, and are of people and programs.
void MakePrintable(PodState* state) {
  VisitState(*state, [](const char* /*name*/, auto& value) {
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(value)>, std::string>) {
      value = Printable(value);
    }
  });
}

}  // namespace

PodState ParsePod(const JsonValue& pod) {
  PodState state;
  state.uid = FieldAt(pod, "metadata.uid");
  state.phase = FieldAt(pod, "status.phase");
  state.reason = FieldAt(pod, "status.reason");
  state.message = FieldAt(pod, "status.message");
  ReadConditions(pod, &state);
  const JsonValue* const containers = pod.At("status.containerStatuses");
  if (containers != nullptr && !containers->children.empty()) {
    ReadContainer(containers->children.front(), &state);
  }
  MakePrintable(&state);
  return state;
}

std::string PodStateText(const PodState& state) {
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  VisitState(state, [&](const char* name, const auto& value) { json.Field(name, value); });
  json.EndObject();
  return std::move(json).Take();
}

Result<PodState> ReadPodState(std::string_view text) {
  PS_ASSIGN(const JsonValue json, ParseJson(text, "a Pod's state"));
  PodState state;
  VisitState(state, [&](const char* name, auto& value) { Read(FieldAt(json, name), &value); });
  MakePrintable(&state);
  return state;
}

bool IsPodEnd(const PodState& state) {
  return state.is_gone || state.is_over || state.phase == "Succeeded" || state.phase == "Failed";
}

PodDelay DelayOf(const PodState& state) {
  if (!state.unscheduled.empty()) {
    return {"no node takes it: " + state.unscheduled, false};
  }
  if (state.waiting.empty() || state.waiting == "ContainerCreating" ||
      state.waiting == "PodInitializing") {
    return {};
  }
  const bool is_image = state.waiting.find("Image") != std::string::npos;
  return {
      ReasonAndMessage(state.waiting, state.waiting_message) +
          (is_image ? "; mend kubernetes.image, or kubernetes.image_pull_secret" : ""),
      std::ranges::find(kHopeless, state.waiting) != kHopeless.end()};
}

PodEnd MeaningOf(const PodState& state, const std::string& needs, bool is_stopped) {
  if (state.is_over && state.container_reason == "OOMKilled") {
    return {
        {1, 0},
        "the program took more memory than it may (OOMKilled); give it more by "
        "kubernetes.memory, or its node has too little"};
  }
  const std::string taken_back = TakenBack(state);
  if (state.is_over && (taken_back.empty() || state.code == 0)) {
    PodEnd end = MeaningOfCode(state, needs);
    end.why += taken_back;
    return end;
  }
  if (is_stopped && taken_back.empty()) {
    return {{0, SIGTERM}, ""};
  }
  std::string why = taken_back;
  if (why.empty() && (!state.reason.empty() || !state.container_reason.empty())) {
    why = state.reason.empty() ? ReasonAndMessage(state.container_reason, state.container_message)
                               : ReasonAndMessage(state.reason, state.message);
  }
  if (why.empty()) {
    why = state.is_gone ? "somebody deleted it" : "phase " + Printable(state.phase);
  }
  return {{state.has_run ? kLostExit : kNotStartedExit, 0}, std::move(why)};
}

}  // namespace ps::provisioner
