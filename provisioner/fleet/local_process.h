#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ps/base/status.h"
#include "ps/base/unique_fd.h"

namespace ps::provisioner {

// Processes of this machine that this process need not have started. A pid is used again, so a
// process is known by its pid and the moment of its start.

/// Clock ticks from the boot to the start of the process. Errors: kNotFound (there is none).
Result<uint64_t> StartTicksOf(int64_t pid);

/// The word after `name` on the command line of a process; empty when there is none.
std::string ArgumentOf(int64_t pid, std::string_view name);

/// A pidfd of the process that started at `start_ticks`: another one with its pid is told apart.
/// Errors: kNotFound (it is over), kIo.
Result<UniqueFd> OpenProcess(int64_t pid, uint64_t start_ticks);

/// Whether the process behind a pidfd is over. Does not wait.
bool HasEnded(int pidfd);

/// Ends it at once (SIGKILL). False when it is gone.
bool KillProcess(int pidfd);

}  // namespace ps::provisioner
