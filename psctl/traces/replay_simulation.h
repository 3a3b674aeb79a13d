#pragma once

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "psctl/traces/replay_report.h"
#include "psctl/traces/replay_trace.h"
#include "run/planning/live_policy.h"

namespace ps::psctl {

/// How a replay was made.
struct ReplaySetting {
  proto::JobConfig config;
  AvailabilityTrace trace;         // in seconds of the clock
  run::LivePolicySettings policy;  // likewise
  double notice_s = 0;             // of the trace; 0: machines go without a word
  uint32_t begins_with = 0;        // machines that were held when the replay began
};

/// What the same policy comes to on the same trace in virtual time, with the production coordinator
/// and workers that take as long to start as those of the replay did. It begins with the fleet that
/// the replay begins with. Errors: kInvalidArgument (nothing says how long a step takes, or the
/// policy cannot be simulated).
Result<ReplaySimulation> SimulateReplay(const ReplaySetting& setting, const ReplayReport& report);

}  // namespace ps::psctl
