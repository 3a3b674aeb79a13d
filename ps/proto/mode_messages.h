#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/proto/job/job_config.h"

namespace ps::proto {

// How a job trains, and what people change of it while it does.

/// How old the parameters of a step may be.
struct ModeChoice {
  Mode mode = Mode::kAsync;
  uint32_t staleness_max = 0;  // ssp; else 0

  friend bool operator==(const ModeChoice&, const ModeChoice&) = default;
};

/// "async", "ssp:3", "bsp".
std::string ModeText(const ModeChoice& mode);

/// The mode of a run was changed.
struct ModeSwitch {
  ModeChoice to;
  double at_s = 0;         // since training began
  uint64_t samples = 0;    // that were counted then
  bool is_policy = false;  // train.mode_policy asked for it, else a person

  friend bool operator==(const ModeSwitch&, const ModeSwitch&) = default;
};

struct ModesStatus {
  ModeChoice in_force;
  ModeChoice wanted;
  bool is_switching = false;         // train leases wait until everybody knows the new mode
  std::vector<ModeSwitch> switches;  // the last ones
};

/// Train leases are granted no more, or again. Errors: kInvalidArgument (the run is ending).
struct PauseRequest {
  bool is_paused = false;
};

struct PauseReply {};

/// The job goes on in another mode, as soon as the steps under way are done. A later request takes
/// the place of one that is not done yet. Errors: kInvalidArgument (staleness, no room for rounds,
/// the run is ending).
struct ModeRequest {
  ModeChoice wanted;
};

struct ModeReply {
  ModesStatus modes;
};

}  // namespace ps::proto
