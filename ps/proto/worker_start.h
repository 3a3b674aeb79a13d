#pragma once

#include <optional>
#include <string>

#include "ps/base/ids.h"
#include "ps/base/time.h"

namespace ps::proto {

/// The start of a worker as its fleet sees it, for who measures how long that takes.
struct WorkerStart {
  LaunchId launch;
  std::string type;                          // of its machine
  std::string zone = {};                     // empty: not known
  TimePoint asked{};                         // it was ordered, or its machine asked for
  std::optional<TimePoint> machine_up = {};  // its machine is known to run; none: not known
};

}  // namespace ps::proto
