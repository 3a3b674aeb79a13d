#pragma once

#include <cstdint>
#include <map>

#include "ps/base/ids.h"
#include "ps/base/time.h"

namespace ps::coordinator {

/// train.mode_policy sync_switch_greedy: whether rounds of bsp take longer than the fleet needs
/// because workers have become slow. A worker that was slow from the start is no straggler: it is
/// compared with its own quickest steps in bsp. What slows all alike, such as the other mode, is
/// left out. A coordinator that was restarted takes the workers as it finds them.
class StragglerWatch {
 public:
  /// How long a step takes may grow so far before its worker straggles ...
  static constexpr double kFactor = 1.5;
  /// ... and has to come back so far before it does no more.
  static constexpr double kFactorOver = 1.2;
  /// For so many looks in a row, one a second at most.
  static constexpr uint32_t kLooks = 3;

  /// The worker made a step of `minibatch` samples, from the lease or the step before to its
  /// report. Requires: seconds > 0.
  void NoteStep(Incarnation incarnation, uint32_t minibatch, double seconds, bool is_bsp);

  void Remove(Incarnation incarnation) { paces_.erase(incarnation); }

  /// Looks at the workers, when the last look was long enough ago. Whether it has changed that
  /// somebody straggles.
  bool Look(TimePoint now);

  /// As Look found it: a round would take so many times as long as the slowest worker's usual step;
  /// 0: not known.
  bool is_straggling() const { return is_straggling_; }

  Incarnation straggler() const { return straggler_; }

  double slowdown() const { return slowdown_; }

 private:
  struct Pace {
    uint32_t minibatch = 0;
    uint32_t steps = 0;    // of that minibatch
    double seconds = 0;    // of a step, smoothed
    double least_bsp = 0;  // of these, in bsp; 0: too few steps yet
  };

  void Measure();

  std::map<Incarnation, Pace> paces_;
  TimePoint looked_{};
  uint32_t looks_ = 0;  // in a row that ask for a change
  bool is_straggling_ = false;
  Incarnation straggler_;  // the slowest by its own measure, at the last look
  double slowdown_ = 0;
};

}  // namespace ps::coordinator
