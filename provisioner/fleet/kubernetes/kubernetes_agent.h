#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/kubernetes/pod_watch.h"

namespace ps::provisioner {

struct KubernetesJob {
  std::string pod;                     // PodText without command and owner
  std::vector<std::string> arguments;  // the program, as the container has it, and its arguments
  std::string needs;                   // a file or folder that the Pod has to have; empty: none
  std::string token;                   // becomes the Secret that the Pod mounts
  std::string folder;                  // of the run, for what its agents share
  KubeLogin login;
  std::string namespace_file;  // where this process, if it is in a Pod, finds that Pod's namespace
  Duration wait{};             // for a Pod to run, then it is given up
  Duration answer_limit{};     // of each call
};

/// Runs the program as a Pod, and deletes the Pod at its end.
///  - SIGTERM is passed on: the Pod is deleted with its grace period. One that is not to be any
///    more is deleted with a second's.
///  - A Pod that is taken back (evicted, preempted, its node drained) gets SIGTERM by its node,
///    which is the notice; if it does not end with code 0 it is lost, not failed.
///  - The Pod is made before its Secret, which it owns, so that neither can be left alone.
///  - The Pod's output goes to stdout, and what delays it to stderr.
AgentEnd RunByKubernetes(const KubernetesJob& job, const AgentWishes& wishes);

}  // namespace ps::provisioner
