#pragma once

#include <span>
#include <vector>

#include "ps/proto/profile.h"

namespace ps::provisioner {

/// The curves that runs left one behind the other: told apart by their fleets, and by steps that
/// begin anew.
std::vector<std::span<const proto::LossSample>> SplitCurves(
    std::span<const proto::LossSample> samples);

/// Number of loss curves that are kept of each size of fleet, the newest ones; separately for
/// fleets with hidden and with late exchanges.
inline constexpr int kCurvesPerFleet = 8;

/// `older` with what `newer` adds: its workers in place of equal ones, its fleets and losses behind
/// the others, its bytes. Fits are taken from `older`; they are to be made anew.
proto::JobProfile MergeProfiles(const proto::JobProfile& older, const proto::JobProfile& newer);

}  // namespace ps::provisioner
