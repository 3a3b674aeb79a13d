#pragma once

#include <cstdint>
#include <string>

#include "ps/base/status.h"
#include "ps/net/program.h"
#include "worker/shell/worker_shell.h"

namespace ps::worker {

/// What a worker is told when it starts.
struct WorkerFlags {
  WorkerShell::Options shell;
  int threads = 0;        // 0: what the job says of the seat
  std::string device;     // empty: likewise
  std::string program;    // JSON, as worker.program of the job; empty: our own
  std::string directory;  // in which that starts; empty: the current one
};

/// ps_worker's text, with all flags.
net::ProgramText WorkerText();

/// Errors: misuse, whatever the code.
Result<WorkerFlags> ReadWorkerFlags(const Flags& flags, const net::RunFlags& run);

}  // namespace ps::worker
