#pragma once

#include <algorithm>
#include <utility>

#include "ps/base/time.h"
#include "ps/proto/timing.h"

namespace ps::proto {

/// For how long a worker or a shard has not heard its coordinator. A connection may look open for
/// a quarter of an hour after the other machine, or the way to it, has gone.
class CoordinatorSilence {
 public:
  void Heard(TimePoint now) { heard_ = now; }

  /// Each `tick` or so. The coordinator is waited for from the first time on. When this process
  /// itself did not run for longer than `pause_least`, nobody could be heard, so that time does not
  /// count: it is returned, else 0.
  Duration Tick(TimePoint now, Duration pause_least) {
    if (last_tick_ == TimePoint()) {
      last_tick_ = now;
      heard_ = std::max(heard_, now);
    }
    const Duration gap = now - std::exchange(last_tick_, now);
    if (gap <= pause_least) {
      return Duration();
    }
    heard_ = std::min(now, heard_ + gap);
    return gap;
  }

  Duration Of(TimePoint now) const { return now - heard_; }

  /// Whether the process has to end. One that is connected has its heartbeats unanswered.
  bool IsTooLong(TimePoint now, bool is_connected, const Timing& timing) const {
    return Of(now) > (is_connected ? std::max(timing.orphan, timing.lease) : timing.orphan);
  }

 private:
  TimePoint heard_{};
  TimePoint last_tick_{};
};

}  // namespace ps::proto
