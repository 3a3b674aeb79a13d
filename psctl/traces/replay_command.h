#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/ids.h"
#include "ps/proto/job/job_config.h"
#include "psctl/cli/command.h"
#include "psctl/traces/replay_trace.h"
#include "run/directory/run_registry.h"
#include "run/report/console.h"

namespace ps::psctl {

struct ReplayCommand {
  std::string trace_path;
  std::string job_path;
  std::vector<proto::ConfigOverride> overrides;
  ReplayScale scale;
  std::string unit = "ms";  // of the trace's times: ms, s or h
  std::string gaps;         // hold, none, cut: of times in which nobody polled; empty: an error
  double notice_s = 120;    // of the trace; 0: machines go without a word
  std::string policy;       // which machines are used; empty: the job's, and without one all are
  std::string plot_path;    // empty: replay.svg in the run directory
  bool is_json = false;
};

/// Whether workers of the job are processes of this machine, which a replay can kill. Errors:
/// kInvalidArgument.
Status CheckReplayed(const proto::JobConfig& config);

/// A policy that can be replayed; empty: none. Errors: kInvalidArgument, with those there are.
Status CheckReplayPolicy(const std::string& name);

/// Whether the process is the worker that the run in `run_root` has started for the seat. A pid
/// that a worker tells may be of another machine, and another process here.
bool IsWorkerOf(int64_t pid, const std::string& run_root, WorkerId seat);

/// Seconds of "ms", "s" or "h". Errors: kInvalidArgument.
Result<double> SecondsOfUnit(const std::string& unit);

extern const Command kReplay;

}  // namespace ps::psctl
