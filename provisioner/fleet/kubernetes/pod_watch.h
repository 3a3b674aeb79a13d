#pragma once

#include <optional>
#include <string>
#include <vector>

#include "provisioner/fleet/kubernetes/pod_state.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/base/unique_fd.h"

namespace ps::provisioner {

/// The words of kubectl that choose the cluster and the login. Empty: kubectl's own choice.
struct KubeLogin {
  std::string kubeconfig;
  std::string context;
};

/// "kubectl" with them.
std::vector<std::string> KubectlWords(const KubeLogin& login);

/// The Pods of a run, watched once for all its agents: a run has an agent for each Pod, and a
/// cluster's API serves everybody. A process of their own, the keeper, runs `kubectl proxy`, lists
/// the Pods, watches them, and writes what it learns of each into a file. It ends when no agent is
/// left. Any agent begins it when there is none.
///
/// The folder is on this machine, and its files are locked (flock), so whatever dies leaves nothing
/// behind that keeps a successor from its work.
class PodWatch {
 public:
  /// `folder`: of a run and a login, made when it is not there, for its owner alone.
  /// `name_space`, `run`: whose Pods.
  PodWatch(
      std::string folder,
      KubeLogin login,
      std::string name_space,
      std::string run,
      Duration answer_limit);

  /// Takes part, until this object goes. Errors: kIo.
  Status Join();

  /// Says, until this object goes or the process dies, that the Pod has an agent. The keeper
  /// deletes those of the run that have none. Requires: Join succeeded. Errors: kIo.
  Status Want(const std::string& pod);
  /// The Pod is not to be any more, and nothing is to be left of it here.
  void Forget(const std::string& pod);

  /// Begins a keeper when nobody has heard of one for a moment and there is none.
  /// Requires: Join succeeded; the process has one thread.
  void Keep() const;

  /// The newest that is known of a Pod; nothing when nothing is.
  std::optional<PodState> StateOf(const std::string& pod) const;

  /// How long ago the API was heard, by the keeper's word; nothing: never.
  std::optional<Duration> Silence() const;

  /// The keeper's last complaint, or kubectl's; empty: none.
  std::string Complaint() const;

  /// Where `kubectl proxy` listens, short enough for a socket's address in this process.
  std::string socket() const;

 private:
  const std::string folder_;
  const KubeLogin login_;
  const std::string name_space_;
  const std::string run_;
  const Duration answer_limit_;
  UniqueFd directory_;
  UniqueFd user_;    // the lock that says that an agent is left
  UniqueFd wanted_;  // and the one that says so of its Pod
};

}  // namespace ps::provisioner
