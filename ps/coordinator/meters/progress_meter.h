#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "ps/base/time.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

/// Rate over the last seconds, and loss and accuracy smoothed over the last minibatches.
class ProgressMeter {
 public:
  /// Works on `state`, which outlives it.
  ProgressMeter(proto::MeterState* state, uint32_t reference_minibatch)
      : state_(state), smoothing_samples_(50.0 * reference_minibatch) {}

  /// A step was counted. Values that are not finite are left out.
  void OnStep(uint64_t samples, double loss_sum, uint64_t correct);
  /// Call now and then.
  void OnTick(TimePoint now, uint64_t samples_counted);

  double SamplesPerSecond() const;

  double loss() const { return state_->loss; }

  double accuracy() const { return state_->accuracy; }

 private:
  proto::MeterState* const state_;
  const double smoothing_samples_;
  std::deque<std::pair<TimePoint, uint64_t>> window_;
};

}  // namespace ps::coordinator
