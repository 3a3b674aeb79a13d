#pragma once

#include <span>
#include <string>
#include <vector>

#include "ps/proto/files/profile.h"

namespace ps::provisioner {

/// The curves that runs left one behind the other: told apart by their fleets, and by steps that
/// begin anew.
std::vector<std::span<const proto::LossSample>> SplitCurves(
    std::span<const proto::LossSample> samples);

/// Number of loss curves that are kept of each size of fleet, the newest ones; separately for
/// fleets with hidden and with late exchanges.
inline constexpr int kCurvesPerFleet = 8;

/// `older` with what `newer` adds: its workers in place of equal ones, its fleets and losses behind
/// the others, its bytes. Fits are taken from `older`; they are to be made anew. Fleets and losses
/// are of one number of local steps: those of another one than the older's are left out.
proto::JobProfile MergeProfiles(const proto::JobProfile& older, const proto::JobProfile& newer);

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
