#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/coordinator/coordinator_core.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle.h"
#include "tests/sim/scenario.h"
#include "tests/sim/shard_node.h"
#include "tests/sim/worker_node.h"

namespace ps::sim {

/// What was seen of a run.
struct Outcome {
  bool is_finished = false;
  Status status;
  std::vector<std::string> violations;
  uint64_t trace_hash = 0;
  uint64_t delivered = 0;
  uint64_t pushes_checked = 0;
  Duration virtual_time{};
  proto::JobStatus job;
  std::string log;

  bool ok() const { return is_finished && status.ok() && violations.empty(); }
};

/// Runs the production cores of coordinator, shards and workers over the virtual network until the
/// job is over, with the oracle looking on.
Outcome Simulate(const Scenario& scenario);

}  // namespace ps::sim
