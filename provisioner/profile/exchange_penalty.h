#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "ps/base/status.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

// What it costs in samples to exchange less often, or fewer bits, than a job was profiled with.
// Pure.

/// The training loss after so many samples.
struct LossAt {
  double samples = 0;
  double loss = 0;
};

/// Samples that `curve` takes to a loss, as a multiple of those of `reference`: the geometric mean
/// over losses that both come down to, the lower half of them. A curve is at a loss when it is
/// first down to it. Errors: kInvalidArgument (a curve has too few points, or they have no loss in
/// common on their way down).
Result<double> SamplesRatio(std::span<const LossAt> reference, std::span<const LossAt> curve);

/// Samples to a loss with `scheme`, as a multiple of those of the profile's own, by what was
/// measured of this mode. Between two numbers of local steps it is a power law of them. What other
/// encodings cost was measured with some numbers of local steps: with others it is the same factor,
/// beside that of the profile's encodings. Nothing where the profile can't tell.
std::optional<double> PenaltyOf(
    const proto::JobProfile& profile, const proto::ExchangeScheme& scheme, std::string_view mode);

/// Workers with which penalties are measured (psctl profile).
inline constexpr int kPenaltyWorkers = 2;

/// Whether that is of runs with these encodings and this number of local steps, or of runs with
/// these encodings and more and fewer of them. Else it is by what they cost with other numbers.
bool IsMeasured(
    const proto::JobProfile& profile, const proto::ExchangeScheme& scheme, std::string_view mode);

}  // namespace ps::provisioner
