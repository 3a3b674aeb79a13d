#pragma once

#include <cstdint>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/files/plan.h"
#include "run/planning/capacity/trace_problem.h"

namespace ps::run {

// The fleet that a plan chooses where traces say how many spot machines could be had.

struct TraceAnswer {
  std::vector<FollowedFleet> best;  // different fleets; empty: no machine could be had
  bool is_kept = false;             // the first one keeps the goal at its confidence
  uint64_t seen = 0;                // fleets
  uint64_t followed = 0;            // of these, along the traces; the others by bounds alone
  // kProven: of all fleets; they were all seen, and so was every bound.
  proto::Certainty certainty = proto::Certainty::kBestFound;
  bool is_stopped = false;  // by the watch
};

/// The fleets of least cost, or that are soonest, in the mean, of those that keep the goal at its
/// confidence along the traces, windows and doubt of the models together; where none does, the one
/// that most likely does, then others in that order. No fleet wants more of an offer than could
/// ever be had. Errors: as Strategy::Solve's.
Result<TraceAnswer> SolveAlongTraces(const TraceProblem& traces);

}  // namespace ps::run
