#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/coordinator/coordinator_core.h"
#include "ps/server/shard_core.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/oracle.h"
#include "tests/sim/worker_node.h"

namespace ps::sim {

/// What a simulated run is and what happens to it. Everything follows from the seed.
struct Scenario {
  uint64_t seed = 1;
  proto::Mode mode = proto::Mode::kAsync;
  uint32_t staleness_max = 2;
  bool overlap = true;
  uint32_t shards = 2;
  uint32_t workers = 3;
  uint32_t epochs = 2;
  uint64_t train_samples = 240;
  NetworkFaults network;
  uint32_t kills = 0;             // without notice, at random times
  uint32_t kills_at_message = 0;  // in the act of sending or receiving a random message
  uint32_t multi_kills = 0;       // instants at which a random number of workers dies together
  uint32_t notices = 0;
  uint32_t partitions = 0;  // between random nodes, shorter or longer than max_detect
  uint32_t hangs = 0;       // a worker is cut off from everybody, then comes back
  Duration disturbed_for = std::chrono::seconds(4);  // all of the above happen within
  bool logs_messages = false;
  Duration time_limit = std::chrono::seconds(600);  // virtual
};

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

/// One line that repeats a run.
std::string Describe(const Scenario& scenario);

/// A scenario drawn from the seed: any mode, any mix of faults.
Scenario RandomScenario(uint64_t seed);

}  // namespace ps::sim
