#include "worker/step_probe.h"

#include <algorithm>
#include <utility>

namespace ps::worker {

void StepProbe::Begin(uint64_t samples, TimePoint now) {
  step_.samples = samples;
  step_.begin = now;
  step_.forward_begin = now;
  step_.forward_s = 0;
  step_.has_forward = false;
  step_.ready_s.assign(ready_s_.size(), 0);
}

/// The time of the step under way, without the forward passes.
double StepProbe::BackwardSeconds(TimePoint now) const {
  return Seconds(now - step_.begin) - step_.forward_s;
}

void StepProbe::OnForward(bool is_done, TimePoint now) {
  if (!is_done) {
    step_.forward_begin = step_.has_forward ? now : step_.begin;
    return;
  }
  step_.forward_s += Seconds(now - step_.forward_begin);
  step_.has_forward = true;
}

void StepProbe::OnReady(uint32_t tensor, TimePoint now) {
  if (tensor < step_.ready_s.size()) {
    step_.ready_s[tensor] = BackwardSeconds(now);
  }
}

void StepProbe::End(TimePoint now) {
  const uint64_t samples = std::exchange(step_.samples, 0);
  if (samples < samples_ || samples == 0 || !step_.has_forward) {
    return;
  }
  if (left_out_ > 0) {
    --left_out_;
    return;
  }
  if (samples > samples_) {
    samples_ = samples;
    steps_ = 0;
    forward_s_ = 0;
    backward_s_ = 0;
    std::ranges::fill(ready_s_, 0);
  }
  ++steps_;
  forward_s_ += step_.forward_s;
  backward_s_ += BackwardSeconds(now);
  for (size_t i = 0; i < ready_s_.size(); ++i) {
    ready_s_[i] += step_.ready_s[i];
  }
}

StepProbe::Figures StepProbe::figures() const {
  Figures figures;
  if (steps_ == 0 || backward_s_ <= 0) {
    return figures;
  }
  const auto steps = static_cast<double>(steps_);
  figures.steps = steps_;
  figures.samples = samples_;
  figures.forward_s = forward_s_ / steps;
  figures.backward_s = backward_s_ / steps;
  for (const double ready_s : ready_s_) {
    figures.ready.push_back(std::clamp(ready_s / backward_s_, 0.0, 1.0));
  }
  return figures;
}

}  // namespace ps::worker
