#pragma once

#include <string>

#include "psctl/cli/arguments.h"
#include "psctl/traces/replay_trace.h"

namespace ps::psctl {

/// Where the arguments of a recorded trace go.
struct TraceArguments {
  std::string* path;
  std::string* unit;  // of the lines' times
  std::string* gaps;  // what holds in times in which nobody polled
};

/// A trace under `names`, with --unit and --gaps. Returns the trace's own argument.
Argument AddTrace(
    const std::string& names,
    const TraceArguments& to,
    Arguments* arguments,
    const std::string& help =
        "TIME,COUNT or TIME,add|remove,NODE lines, JSON, or Parcae's event lists");

/// Which part of it: --from-hour, --hours and --nodes.
void AddTracePart(ReplayScale* part, Arguments* arguments);

}  // namespace ps::psctl
