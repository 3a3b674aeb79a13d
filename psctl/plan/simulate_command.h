#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "psctl/cli/command.h"
#include "psctl/traces/replay_trace.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl simulate`.
struct SimulateCommand {
  static constexpr double kStartUnsaid = -1;

  std::string job_path;  // empty: the profile alone
  std::string trace_path;
  std::string unit = "ms";  // of the trace's times: ms, s or h
  std::string gaps;         // hold, none, cut: of times in which nobody polled; empty: an error
  ReplayScale part = {.speedup = 1};
  std::vector<std::string> policies;  // empty: all that the command's figures allow
  std::string profile_path;           // empty: the speed is that of the job's first workers
  std::string catalog_path;
  std::string type;      // of the workers, with a profile
  std::string servers;   // TYPE=N, with a profile
  uint32_t workers = 0;  // at most; 0: the most machines of the trace
  double start_s = kStartUnsaid;
  double detect_s = 0;      // until the seat of a revoked worker is given to another one
  bool has_notice = false;  // of revocations: workers hand in what they have
  double samples = 0;       // the goal; 0: to the end of the trace
  double within_s = 0;      // the goal's deadline; 0: none
  double spot_usd = 0;      // of a machine in an hour; 0: the catalog's, or the job's
  double on_demand_usd = 0;
  std::string prices_path;       // of spot machines over time; empty: they stay as above
  double egress_usd_per_gb = 0;  // of what workers send and fetch, by the profile
  double launch_failures = 0;    // share of starts of spot machines that come to nothing
  uint32_t seeds = 1;
  std::string engine = "cores";  // or "rates"
  std::string log_path;          // of the coordinator, with the engine cores; empty: none
  std::string plot_path;         // empty: none
  bool is_json = false;
};

extern const Command kSimulate;

}  // namespace ps::psctl
