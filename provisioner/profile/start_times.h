#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/proto/files/profile.h"

namespace ps::provisioner {

/// What starts took until their first step counted, in seconds.
struct StartTimes {
  int count = 0;
  double median_s = 0;
  double high_s = 0;  // nine in ten took no longer
};

/// By type of machine. Starts without a counted step are left out.
std::map<std::string, StartTimes> StartTimesByType(std::span<const proto::StartSample> starts);

/// The starts that tell when a new machine's worker begins. `launcher` is the job's, and empty
/// where there is no job or it starts its workers on its own machine: then those of machines that
/// were rented count, of a type without any those that a queue gave. With ssh the machines are up,
/// which tells nothing of others.
std::vector<proto::StartSample> StartsFor(
    std::span<const proto::StartSample> starts, std::string_view launcher);

/// Those that were not made on the coordinator's own machine.
std::vector<proto::StartSample> StartsElsewhere(std::span<const proto::StartSample> starts);

}  // namespace ps::provisioner
