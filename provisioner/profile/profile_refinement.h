#pragma once

#include <string>
#include <vector>

#include "ps/proto/profile.h"

namespace ps::provisioner {

/// What a run that was not made to measure adds to its job's profile.
struct Refinement {
  proto::JobProfile part;             // to be merged; MergeProfiles
  std::vector<std::string> learnt;    // "the speed of 4 workers"
  std::vector<std::string> left_out;  // what it told but can't be trusted, and why
};

/// `told` by a run on a machine whose processors were busy for this share of the time (0 to 1), as
/// far as `older` may learn from it. Pure.
///
/// Step times are averaged over the last steps that were measured, whatever the run. Speeds are
/// left out when processes had to wait for processors, when a step takes a time that is nothing
/// like the one known (another machine, or a crowded one), and when they were watched too briefly.
Refinement RefinementBy(
    const proto::JobProfile& older, const proto::JobProfile& told, double machine_busy);

}  // namespace ps::provisioner
