#pragma once

#include <string>
#include <string_view>

#include "provisioner/fleet/agent_process.h"

namespace ps::provisioner {

/// What `scontrol --oneliner show job` says. `signal` is no more than Slurm's word: it has numbers
/// that no system has, such as 125 and 53.
struct SlurmState {
  std::string state;  // "RUNNING"
  int code = 0;
  int signal = 0;
};

/// Fields that are missing stay empty. Pure.
SlurmState ParseSlurmState(std::string_view text);

/// Whether a job in this state is over.
bool IsSlurmEnd(std::string_view state);

/// The end of a job as that of a process of this machine.
struct SlurmEnd {
  AgentEnd end;
  std::string why;  // for the log; empty: the program ended by itself
};

/// The job's script exits with this where the program's needs are not met. No program of ours uses
/// the code.
inline constexpr int kLacksExit = 125;

/// What an end means for whoever started the job. It is a success for a job that COMPLETED with the
/// code 0 alone: whatever Slurm may add to its states, it is read as a job that was lost.
/// `needs`: what the script looks for on the node; empty: nothing.
/// Requires: IsSlurmEnd(state.state).
SlurmEnd MeaningOf(const SlurmState& state, bool has_run, const std::string& needs);

}  // namespace ps::provisioner
