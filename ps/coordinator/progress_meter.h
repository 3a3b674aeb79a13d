#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "ps/base/time.h"

namespace ps::coordinator {

/// Rate over the last seconds, and loss and accuracy smoothed over the last minibatches.
class ProgressMeter {
 public:
  explicit ProgressMeter(uint32_t reference_minibatch)
      : smoothing_samples_(50.0 * reference_minibatch) {}

  /// A step was counted. Values that are not finite are left out.
  void OnStep(uint64_t samples, double loss_sum, uint64_t correct);
  /// Call now and then.
  void OnTick(TimePoint now, uint64_t samples_counted);

  double SamplesPerSecond() const;

  double loss() const { return loss_; }

  double accuracy() const { return accuracy_; }

 private:
  const double smoothing_samples_;
  std::deque<std::pair<TimePoint, uint64_t>> window_;
  double loss_ = 0;
  double accuracy_ = 0;
  bool has_step_ = false;
};

}  // namespace ps::coordinator
