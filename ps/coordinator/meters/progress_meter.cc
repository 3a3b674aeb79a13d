#include "ps/coordinator/meters/progress_meter.h"

#include <cmath>

namespace ps::coordinator {
namespace {

constexpr Duration kWindow = std::chrono::seconds(5);
constexpr Duration kSampleEvery = std::chrono::milliseconds(250);

}  // namespace

void ProgressMeter::OnStep(uint64_t samples, double loss_sum, uint64_t correct) {
  if (samples == 0 || !std::isfinite(loss_sum)) {
    return;
  }
  const auto n = static_cast<double>(samples);
  const double weight = state_->has_step ? 1 - std::exp(-n / smoothing_samples_) : 1;
  state_->loss += weight * (loss_sum / n - state_->loss);
  state_->accuracy += weight * (static_cast<double>(correct) / n - state_->accuracy);
  state_->has_step = true;
}

void ProgressMeter::OnTick(TimePoint now, uint64_t samples_counted) {
  if (!window_.empty() && now - window_.back().first < kSampleEvery) {
    return;
  }
  window_.emplace_back(now, samples_counted);
  while (window_.size() > 2 && now - window_.front().first > kWindow) {
    window_.pop_front();
  }
}

double ProgressMeter::SamplesPerSecond() const {
  if (window_.size() < 2) {
    return 0;
  }
  const double seconds = Seconds(window_.back().first - window_.front().first);
  return seconds <= 0
             ? 0
             : static_cast<double>(window_.back().second - window_.front().second) / seconds;
}

}  // namespace ps::coordinator
