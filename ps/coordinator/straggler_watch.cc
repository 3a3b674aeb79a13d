#include "ps/coordinator/straggler_watch.h"

#include <algorithm>
#include <vector>

namespace ps::coordinator {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr double kNewestStep = 0.3;   // weight of the newest step
constexpr uint32_t kStepsToKnow = 3;  // the first one has work that is only done once

}  // namespace

void StragglerWatch::NoteStep(
    Incarnation incarnation, uint32_t minibatch, double seconds, bool is_bsp) {
  Pace& pace = paces_[incarnation];
  if (pace.minibatch != minibatch) {
    pace = {.minibatch = minibatch};
  }
  ++pace.steps;
  pace.seconds =
      pace.steps <= 2 ? seconds : (1 - kNewestStep) * pace.seconds + kNewestStep * seconds;
  if (is_bsp && pace.steps >= kStepsToKnow &&
      (pace.least_bsp == 0 || pace.seconds < pace.least_bsp)) {
    pace.least_bsp = pace.seconds;
  }
}

bool StragglerWatch::Look(TimePoint now) {
  if (looked_ != TimePoint{} && now - looked_ < kLookEvery) {
    return false;
  }
  looked_ = now;
  Measure();
  const bool asks =
      is_straggling_ ? slowdown_ < kFactorOver : slowdown_ > kFactor && straggler_ != Incarnation();
  looks_ = asks ? looks_ + 1 : 0;
  if (looks_ < kLooks) {
    return false;
  }
  looks_ = 0;
  is_straggling_ = !is_straggling_;
  return true;
}

void StragglerWatch::Measure() {
  straggler_ = Incarnation();
  slowdown_ = 0;
  std::vector<double> growths;
  double usual = 0;
  for (const auto& [incarnation, pace] : paces_) {
    if (pace.least_bsp > 0) {
      growths.push_back(pace.seconds / pace.least_bsp);
      usual = std::max(usual, pace.least_bsp);
    }
  }
  if (growths.size() < 2) {
    return;  // one alone waits for nobody
  }
  const auto middle = growths.begin() + static_cast<int64_t>((growths.size() - 1) / 2);
  std::nth_element(growths.begin(), middle, growths.end());
  for (const auto& [incarnation, pace] : paces_) {
    if (pace.least_bsp > 0 && pace.seconds / *middle / usual > slowdown_) {
      slowdown_ = pace.seconds / *middle / usual;
      straggler_ = incarnation;
    }
  }
}

}  // namespace ps::coordinator
