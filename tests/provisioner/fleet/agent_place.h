#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/provisioner/fleet/cluster_script.h"
#include "tests/provisioner/fleet/launcher_conformance.h"

namespace ps::provisioner {

/// A place that is reached by ps_agent.
class AgentPlace : public Place {
 protected:
  /// `spec` by way of the program `agent` with these flags.
  static LaunchSpec Agent(LaunchSpec spec, std::string agent, std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--program", spec.program, "--"});
    flags.insert(flags.end(), spec.arguments.begin(), spec.arguments.end());
    spec.program = std::move(agent);
    spec.arguments = std::move(flags);
    return spec;
  }

  ClusterScript script_;
};

/// Kills the children of the process whose number is in a file, and theirs.
inline void KillSessionsOf(const std::string& pid_file) {
  std::vector<std::string> pids = {ReadSmallFile(pid_file, 20).value()};
  for (size_t i = 0; i < pids.size(); ++i) {
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
      const Result<std::string> status = ReadFile(process.path().string() + "/status");
      const std::string name = status.ok() ? status->substr(0, status->find('\n')) : "";
      if (name.ends_with("\tsshd") &&
          status->find("\nPPid:\t" + pids[i] + "\n") != std::string::npos) {
        pids.push_back(process.path().filename());
      }
    }
  }
  for (size_t i = pids.size() - 1; i > 0; --i) {
    ::kill(static_cast<pid_t>(std::stol(pids[i])), SIGKILL);
  }
}

}  // namespace ps::provisioner
