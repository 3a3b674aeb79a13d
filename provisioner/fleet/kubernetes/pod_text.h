#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/proto/fleet_actions.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

// The objects of Kubernetes that a process is made of, as JSON. All functions are pure.

/// Where the Pod's container finds its token.
inline constexpr std::string_view kPodTokenFolder = "/run/spotps";
inline constexpr std::string_view kPodTokenFile = "/run/spotps/token";

/// One process of a run.
struct PodPlan {
  proto::ProcessKind kind = proto::ProcessKind::kWorker;
  uint32_t index = 0;
  LaunchId launch;
  std::string run;  // letters and digits that no other run has
  std::string job;  // its name
  uint32_t cpus = 1;
  uint32_t grace_s = 0;  // from SIGTERM to SIGKILL
};

/// Says the run, the kind, the index and the launch: whoever asks twice for the same Pod, because
/// an answer was lost, gets one.
std::string PodName(const PodPlan& plan);

/// The Pod without its command and owner.
std::string PodText(const PodPlan& plan, const proto::KubernetesConfig& kubernetes);

/// Puts in what the container runs. `needs`: a path without which it runs nothing and exits with
/// kPodLacksExit; empty: none. Requires: `pod` is a PodText without a command.
std::string WithCommand(
    std::string pod, const std::vector<std::string>& words, const std::string& needs);
inline constexpr int kPodLacksExit = 125;  // no program of ours uses the code

/// Puts in the Pod that it goes with. Requires: `pod` is a PodText without an owner.
std::string WithOwner(std::string pod, std::string_view owner, std::string_view uid);

/// Who a Pod is.
struct PodIdentity {
  std::string name;
  std::string name_space;
  std::string run;
  std::string launch;
  uint32_t grace_s = 0;
};

/// Errors: kInvalidArgument when `pod` is no PodText.
Result<PodIdentity> IdentityOf(const std::string& pod);

/// The Secret with the process's token, of the same name as the Pod, with which it goes.
std::string SecretText(const PodIdentity& pod, std::string_view uid, std::string_view token);

}  // namespace ps::provisioner
