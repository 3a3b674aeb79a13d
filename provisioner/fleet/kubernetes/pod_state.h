#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "provisioner/fleet/agent_process.h"
#include "ps/base/status.h"
#include "ps/json/json_value.h"

namespace ps::provisioner {

/// What Kubernetes says of a Pod with one container, as far as anybody here asks. Texts are empty
/// where it says nothing.
struct PodState {
  std::string uid;
  std::string phase;             // "Pending", "Running", "Succeeded", "Failed", "Unknown"
  std::string reason;            // of the Pod: "Evicted", "OutOfcpu", "DeadlineExceeded"
  std::string message;           // likewise
  std::string unscheduled;       // why it has no node
  std::string disruption;        // of the condition DisruptionTarget: it is taken back
  std::string waiting;           // of the container: "ImagePullBackOff"
  std::string waiting_message;   // likewise
  std::string container_reason;  // of its end: "OOMKilled", "Error", "StartError"
  std::string container_message;
  bool has_run = false;    // the container runs, or did
  bool is_over = false;    // the container has ended, with `code`
  int code = 0;            // as a shell's: 137 is SIGKILL
  bool is_gone = false;    // there is no such Pod any more
  bool is_absent = false;  // a list did not have it, which says nothing for sure

  friend bool operator==(const PodState&, const PodState&) = default;
};

/// Reads an object of the kind Pod. What is missing, or not understood, stays empty. Pure.
PodState ParsePod(const JsonValue& pod);

/// To and from one line of JSON. Pure. Errors: kInvalidArgument.
std::string PodStateText(const PodState& state);
Result<PodState> ReadPodState(std::string_view text);

/// Whether the Pod runs nothing and never will, or has ended.
bool IsPodEnd(const PodState& state);

/// Why a Pod does not run yet; empty: nobody said. `is_hopeless`: waiting does not help.
struct PodDelay {
  std::string why;
  bool is_hopeless = false;
};

PodDelay DelayOf(const PodState& state);

/// The end of a Pod as that of a process of this machine.
struct PodEnd {
  AgentEnd end;
  std::string why;  // for the log; empty: the program ended by itself
};

/// `needs`: what the container looks for at its start; empty: nothing. `is_stopped`: the agent has
/// asked for the end. A Pod that is taken back says nothing of its program: it is lost, unless the
/// program ended with code 0 at its notice. Pure.
/// Requires: IsPodEnd(state).
PodEnd MeaningOf(const PodState& state, const std::string& needs, bool is_stopped);

}  // namespace ps::provisioner
