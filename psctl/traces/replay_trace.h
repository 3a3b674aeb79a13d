#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::psctl {

/// From `at_s` on, `nodes` machines can be had.
struct TraceStep {
  double at_s = 0;  // since the trace's beginning
  uint32_t nodes = 0;

  friend bool operator==(const TraceStep&, const TraceStep&) = default;
};

/// How many machines could be had over time: at least one step, the first one at 0, times ascend,
/// and each step changes the count.
struct AvailabilityTrace {
  std::vector<TraceStep> steps;
  double end_s = 0;  // when the recording ends
};

inline constexpr uint32_t kTraceNodesMax = 14'000;  // as many as a simulation has workers

/// What to make of a time in which whoever polled a count did not: a gap of more than ten times the
/// usual time between two lines, or a null in JSON. Times of events have no gaps.
enum class GapRule : uint8_t {
  kRefuse,
  kHold,  // the count before it stays
  kNone,  // there was no machine
  kCut,   // that time is left out
};

/// The rule of "hold", "none" or "cut"; of "", kRefuse. Errors: kInvalidArgument.
Result<GapRule> GapRuleOf(const std::string& name);

/// Reads a trace: lines of `time,count`, of `time,add|remove,node`, or of
/// `[time, "add|remove|no-op|migration", {"nodes": [node, ...], "duration": time}]`, in units of
/// `unit_s` seconds; lines of `YYYY-MM-DD, HH:MM:SS, count` as somebody polled it; or JSON with
/// metadata.gap_seconds and a list `data` of counts. A byte order mark and a first line that names
/// the columns are left out. Errors: kInvalidArgument with `name` and the
/// line.
Result<AvailabilityTrace> ParseTrace(
    std::string_view all, const std::string& name, double unit_s, GapRule gaps = GapRule::kRefuse);

/// What a spot machine costs in an hour, from `at_s` on.
struct PriceLine {
  double at_s = 0;  // since the trace's beginning
  double usd = 0;

  friend bool operator==(const PriceLine&, const PriceLine&) = default;
};

/// Reads prices over time: lines of `time,usd`, times as a trace has them, a line whenever the
/// price changes; the last one stays. Where nearly all lines come at one interval, a longer one is
/// a gap, which is refused but for kHold. Errors: kInvalidArgument with `name` and the line, for a
/// time whose price is missing with what time that is.
Result<std::vector<PriceLine>> ParsePrices(
    std::string_view text, const std::string& name, double unit_s, GapRule gaps = GapRule::kRefuse);

/// The prices from `from_s` on, in seconds since then. Errors: kInvalidArgument (there is none
/// yet).
Result<std::vector<PriceLine>> CutPrices(
    const std::vector<PriceLine>& prices, const std::string& name, double from_s);

/// What of a trace is replayed, and how.
struct ReplayScale {
  double from_hours = 0;  // of the trace
  // How much of the trace; infinity: to its end.
  double hours = std::numeric_limits<double>::infinity();
  double speedup = 60;     // seconds of the trace in one of the clock
  uint32_t nodes_max = 0;  // counts are scaled so that the largest is this; 0: they are as they are
};

/// What is said of nodes_max where it is none.
std::string NodesWanted();

/// The part of the trace that is replayed, in seconds of the clock. Errors: kInvalidArgument (it
/// has nothing there, or numbers make no sense).
Result<AvailabilityTrace> CutTrace(const AvailabilityTrace& trace, const ReplayScale& scale);

/// Machines times seconds.
double NodeSeconds(const AvailabilityTrace& trace);

}  // namespace ps::psctl
