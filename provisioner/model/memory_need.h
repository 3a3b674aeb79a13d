#pragma once

#include "ps/proto/files/profile.h"

namespace ps::provisioner {

// What the processes of a job take of memory, in bytes. The profile has it from the job's model.
// Where it does not, these are what every job takes, and less than all of it.

/// One worker.
struct WorkerNeed {
  double host_bytes = 0;    // of main memory
  double device_bytes = 0;  // of each device; 0 on the CPU
  bool is_all = false;      // false: parameters and a gradient alone
};

/// The servers. Their hosts share all but `host_bytes` and `held_bytes_max` in equal parts.
struct ServerNeed {
  double shared_bytes = 0;    // parameters, the optimizer's values, their copies for checkpoints
  double worker_bytes = 0;    // for each worker: its gradient that waits for its round
  double held_bytes = 0;      // for each worker: what it holds, where pulls are differences
  double held_bytes_max = 0;  // most of the line above on one host
  double host_bytes = 0;      // of each host: the process, and what its storage writes from
  bool is_all = false;        // false: of `shared_bytes` parameters alone
};

/// `has_devices`: it computes on devices, not on the CPU. Requires: parameter_bytes is known.
WorkerNeed WorkerNeedOf(
    const proto::JobProfile& profile, const proto::WorkerProfile& worker, bool has_devices);

/// `held_bytes_max`: ExchangeChange's. Requires: as above.
ServerNeed ServerNeedOf(const proto::JobProfile& profile, double held_bytes_max);

}  // namespace ps::provisioner
