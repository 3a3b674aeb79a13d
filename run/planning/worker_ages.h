#pragma once

#include <map>

#include "ps/base/ids.h"
#include "run/directory/run_directory.h"

namespace ps::run {

/// For how many seconds each worker's process has taken part in its run, by seat.
using WorkerAges = std::map<WorkerId, double>;

/// By the coordinator's log: of the last process that joined in each seat. Seats whose join the log
/// has forgotten are left out, and all of them where it can't be read: machines of no known age
/// count as new. `unix_s`: now.
WorkerAges AgesOfWorkers(const RunPaths& run, double unix_s);

}  // namespace ps::run
