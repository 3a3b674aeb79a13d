#pragma once

#include <string>
#include <vector>

#include "psctl/cli/command.h"
#include "psctl/traces/replay_trace.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl forecast`.
struct ForecastCommand {
  std::string trace_path;
  std::string unit = "ms";  // of the trace's times: ms, s or h
  std::string gaps;         // hold, none, cut: of times in which nobody polled; empty: an error
  double interval_s = 60;
  std::vector<int> horizons = {1, 2, 6, 12};  // intervals ahead
  double band = 0.8;                          // share of counts that bands are to hold
  bool is_json = false;
};

/// The count at the begin of each interval. Errors: kInvalidArgument (too many intervals).
Result<std::vector<uint32_t>> CountsOf(const AvailabilityTrace& trace, double interval_s);

extern const Command kForecast;

}  // namespace ps::psctl
