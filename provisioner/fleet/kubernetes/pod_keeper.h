#pragma once

#include <string>

#include "provisioner/fleet/kubernetes/pod_watch.h"
#include "ps/base/time.h"

namespace ps::provisioner {

// The files of a PodWatch's folder.
inline constexpr const char* kUsersFile = "users";      // each agent has a shared lock of it
inline constexpr const char* kKeeperFile = "keeper";    // the keeper has the lock of it
inline constexpr const char* kHeardFile = "heard";      // when the API was heard: nanoseconds
inline constexpr const char* kLogFile = "log";          // of the keeper, and of kubectl
inline constexpr const char* kSocketFile = "socket";    // of kubectl proxy
inline constexpr const char* kPodsFolder = "pods";      // a file for each Pod, by its name
inline constexpr const char* kWantedFolder = "wanted";  // one that its agent has locked, likewise

struct PodKeeperOptions {
  KubeLogin login;
  std::string name_space;
  std::string run;
  Duration answer_limit{};
};

/// The keeper, in a process of its own whose working directory is the folder. Returns when no agent
/// is left, or when there is another keeper.
void KeepPods(const PodKeeperOptions& options);

}  // namespace ps::provisioner
