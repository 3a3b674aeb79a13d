#include "ps/coordinator/meters/straggler_watch.h"

#include <algorithm>
#include <vector>

namespace ps::coordinator {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr double kNewestStep = 0.3;   // weight of the newest step
constexpr uint32_t kStepsToKnow = 3;  // the first one has work that is only done once

}  // namespace

void StragglerWatch::NoteStep(
    Incarnation incarnation, uint32_t samples, double seconds, bool is_bsp) {
  Pace& pace = paces_[incarnation];
  if (pace.part == Part::kAside) {
    return;  // a step that it had begun before
  }
  if (pace.samples != samples) {
    const bool is_restored = pace.samples == 0;
    pace = {
        .samples = samples,
        .steps = is_restored ? pace.steps : 0,
        .least_bsp = is_restored ? pace.least_bsp : 0,
        .part = pace.part};
  }
  if (pace.part == Part::kOnTrial) {
    pace.trial_s = seconds;
    return;
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

StragglerWatch::Fleet StragglerWatch::Known() const {
  Fleet fleet;
  std::vector<double> growths;
  for (const auto& [incarnation, pace] : paces_) {
    if (pace.least_bsp > 0 && pace.part == Part::kIn) {
      growths.push_back(pace.seconds / pace.least_bsp);
      fleet.usual_s = std::max(fleet.usual_s, pace.least_bsp);
    }
  }
  fleet.known = growths.size();
  if (fleet.known > 0) {
    const auto middle = growths.begin() + static_cast<int64_t>((growths.size() - 1) / 2);
    std::nth_element(growths.begin(), middle, growths.end());
    fleet.growth = *middle;
  }
  return fleet;
}

void StragglerWatch::Measure() {
  straggler_ = Incarnation();
  slowdown_ = 0;
  const Fleet fleet = Known();
  if (fleet.known < 2) {
    return;  // one alone waits for nobody
  }
  for (const auto& [incarnation, pace] : paces_) {
    const double slowdown = pace.seconds / fleet.growth / fleet.usual_s;
    if (pace.least_bsp > 0 && pace.part == Part::kIn && slowdown > slowdown_) {
      slowdown_ = slowdown;
      straggler_ = incarnation;
    }
  }
}

double StragglerWatch::UsualOf(Incarnation incarnation) const {
  const auto pace = paces_.find(incarnation);
  return pace == paces_.end() ? 0 : pace->second.least_bsp;
}

/// The looks so far were at other workers.
void StragglerWatch::Forget() {
  looks_ = 0;
  is_straggling_ = false;
  straggler_ = Incarnation();
  slowdown_ = 0;
}

void StragglerWatch::SetAside(Incarnation incarnation) {
  paces_[incarnation].part = Part::kAside;
  Forget();
}

void StragglerWatch::Restore(Incarnation incarnation, double usual_s) {
  paces_[incarnation] = {
      .steps = kStepsToKnow, .seconds = usual_s, .least_bsp = usual_s, .part = Part::kAside};
}

void StragglerWatch::Try(Incarnation incarnation) {
  Pace& pace = paces_[incarnation];
  pace.part = Part::kOnTrial;
  pace.trial_s = 0;
}

std::optional<double> StragglerWatch::TrialSlowdown(Incarnation incarnation) const {
  const auto found = paces_.find(incarnation);
  const Fleet fleet = Known();
  if (found == paces_.end() || found->second.trial_s == 0 || fleet.known == 0) {
    return std::nullopt;
  }
  const Pace& pace = found->second;
  // With steps of another size it has no usual pace any more, so that it is as one that is new.
  return pace.least_bsp == 0
             ? 0
             : pace.trial_s / fleet.growth / std::max(fleet.usual_s, pace.least_bsp);
}

void StragglerWatch::TakeBack(Incarnation incarnation) {
  Pace& pace = paces_[incarnation];
  pace.part = Part::kIn;
  pace.seconds = pace.trial_s > 0 ? pace.trial_s : pace.least_bsp;
  pace.trial_s = 0;
}

}  // namespace ps::coordinator
