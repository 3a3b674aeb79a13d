// What Slurm and Kubernetes say of the processes that they run.

#include <signal.h>

#include <string>
#include <string_view>

#include "provisioner/fleet/kubernetes/pod_state.h"
#include "provisioner/fleet/slurm_queue.h"
#include "provisioner/fleet/slurm_state.h"
#include "ps/base/check.h"
#include "ps/base/text.h"
#include "ps/json/json_value.h"
#include "tests/fuzz/targets.h"

namespace ps::fuzz {
namespace {

using namespace provisioner;

constexpr const char* kNeeds = "/shared/run";

/// The agent can end so, and it is a success only when `may_succeed`.
void CheckAgentEnd(const AgentEnd& end, const std::string& why, bool may_succeed) {
  PS_CHECK(end.code >= 0 && end.code <= 255) << end.code;
  PS_CHECK(end.signal == 0 || EndsProcess(end.signal)) << end.signal;
  PS_CHECK(may_succeed || end.code != 0 || end.signal != 0) << "a success that nobody reported";
  PS_CHECK(Printable(why) == why) << why;
}

bool FuzzSlurmState(std::string_view text) {
  const SlurmState state = ParseSlurmState(text);
  PS_CHECK(state.state.find_first_of(" \n") == std::string::npos) << state.state;
  if (IsSlurmEnd(state.state)) {
    const bool is_success = state.state == "COMPLETED" && state.code == 0;
    for (const bool has_run : {false, true}) {
      const SlurmEnd end = MeaningOf(state, has_run, kNeeds);
      CheckAgentEnd(end.end, end.why, is_success);
    }
  }
  return !state.state.empty();
}

bool FuzzSlurmQueue(std::string_view text) {
  const auto states = ParseSlurmQueue(text);
  std::string lines;
  for (const auto& [job, state] : states) {
    PS_CHECK(!job.empty() && job.find_first_of(" \n") == std::string::npos) << job;
    PS_CHECK(!state.ends_with(' ') && state.find('\n') == std::string::npos) << state;
    lines += job + " " + state + "\n";
  }
  PS_CHECK(ParseSlurmQueue(lines) == states) << lines;
  return !states.empty();
}

void CheckPod(const PodState& state) {
  const std::string line = PodStateText(state);
  PS_CHECK(line.find('\n') == std::string::npos) << line;
  const Result<PodState> read = ReadPodState(line);
  PS_CHECK(read.ok()) << read.status();
  PS_CHECK(*read == state) << line;
  const PodDelay delay = DelayOf(state);
  PS_CHECK(Printable(delay.why) == delay.why) << delay.why;
  if (IsPodEnd(state)) {
    for (const bool is_stopped : {false, true}) {
      const PodEnd end = MeaningOf(state, kNeeds, is_stopped);
      CheckAgentEnd(end.end, end.why, state.is_over && state.code == 0);
    }
  }
}

}  // namespace

bool FuzzSlurm(std::span<const uint8_t> input) {
  if (input.empty()) {
    return false;
  }
  const std::string_view text = Text(input.subspan(1));
  return input.front() % 2 == 0 ? FuzzSlurmState(text) : FuzzSlurmQueue(text);
}

bool FuzzPod(std::span<const uint8_t> input) {
  const Result<JsonValue> json = ParseJson(Text(input), "pod");
  if (!json.ok()) {
    PS_CHECK(!ReadPodState(Text(input)).ok()) << "no JSON";
    return false;
  }
  CheckPod(ParsePod(*json));
  const Result<PodState> kept = ReadPodState(Text(input));
  PS_CHECK(kept.ok()) << kept.status();
  CheckPod(*kept);
  return true;
}

}  // namespace ps::fuzz
