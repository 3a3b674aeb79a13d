#pragma once

#include <optional>

#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

// Tell of what TrendWatch finds, as events.

/// A step was counted. `loss`: as TrendWatch::OnStep.
void TellOfStep(std::optional<double> loss, TimePoint now, Job* job);

/// At every tick.
void TellOfTrends(TimePoint now, Job* job);

}  // namespace ps::coordinator
