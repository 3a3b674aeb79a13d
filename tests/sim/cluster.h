#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "tests/sim/scenario.h"

namespace ps::sim {

/// What was seen of a run.
struct Outcome {
  bool is_finished = false;
  Status status;
  std::vector<std::string> violations;
  uint64_t trace_hash = 0;
  uint64_t delivered = 0;
  uint64_t pushes_checked = 0;
  uint64_t hand_overs = 0;  // last pushes with what was held back
  Duration virtual_time{};
  proto::JobStatus job;
  std::vector<std::vector<float>> model;  // that it has left, by tensor
  std::string log;

  /// A server was away for so long that the run had to end: no fault of the cores.
  bool is_excused = false;

  bool ok() const { return is_finished && (status.ok() || is_excused) && violations.empty(); }
};

/// Runs the production cores of coordinator, shards and workers over the virtual network until the
/// job is over, with the oracle looking on.
Outcome Simulate(const Scenario& scenario);

}  // namespace ps::sim
