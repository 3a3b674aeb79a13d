#pragma once

#include "ps/base/time.h"

namespace ps::emulation {

/// A device whose tasks take `slowdown` times as long as this machine's, and a training step at
/// least `step_least`. Most of the wait comes before a task, by the durations of the last ones, so
/// that what is sent during it is late too. Thread: one.
class Device {
 public:
  /// Requires: slowdown >= 1.
  Device(double slowdown, Duration step_least) : slowdown_(slowdown), step_least_(step_least) {}

  /// How long to wait before a task; 0 until the duration of a step is known.
  Duration WaitBefore(bool is_step) const;
  /// The arithmetic of a step took so long.
  void OnStep(Duration arithmetic);

  /// How long to wait after a step that has taken `elapsed`, first wait included; 0 or less: not.
  Duration WaitAfter(Duration elapsed) const { return step_least_ - elapsed; }

 private:
  double slowdown_;
  Duration step_least_;
  double step_seconds_ = 0;  // smoothed, without waits; 0: no step yet
};

}  // namespace ps::emulation
