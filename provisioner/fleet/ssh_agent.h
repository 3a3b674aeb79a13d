#pragma once

#include <string>
#include <vector>

#include "provisioner/fleet/agent_process.h"

namespace ps::provisioner {

struct SshJob {
  std::string host;
  std::string ssh_config;  // empty: the user's own
  /// The folder of the rented machine's keys (MachineKeysIn): the only one that it may show, and
  /// the one that lets us in. Empty: as ssh itself decides.
  std::string machine_keys;
  std::string program;  // a file of this machine
  std::string needs;    // a file or folder that the host has to have; empty: none
  std::string token;
  std::string turns;  // a folder where the agents of a run take turns to connect (SshTurn)
  std::vector<std::string> arguments;
  /// So long the host may be silent until the process runs.
  Duration answer_limit{};
  /// So long a host may not let us in at all, since it boots. 0: at once.
  Duration boot_limit{};
};

/// Runs the program on `host`. Its output is our stderr.
///  - The program is copied to the host's ~/.cache/spotps when it is missing or differs.
///  - The token arrives there by stdin, and is the program's stdin.
///  - A host that drops the connection before a login is asked again, until it has been silent for
///    the limit; one that boots, whatever it does, until it has had the time for that.
///  - SIGTERM is passed on. The process is killed when the connection ends for whatever reason.
/// The words that the host is sent are in ssh_agent.cc.
AgentEnd RunOverSsh(const SshJob& job, const AgentWishes& wishes);

/// The command that runs a command line on `host`, which comes behind as one more word.
/// `machine_keys`: see SshJob.
std::vector<std::string> SshWords(
    const std::string& host,
    const std::string& ssh_config,
    Duration answer_limit,
    const std::string& machine_keys = "");

/// The command line on a host behind which a process of ours runs there (MachineScript).
std::string_view SshBootstrap();

/// A name of the content, for files: other bytes, another name.
std::string ContentName(std::string_view bytes);

}  // namespace ps::provisioner
