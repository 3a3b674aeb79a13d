#pragma once

#include <algorithm>
#include <utility>

#include "ps/base/time.h"
#include "ps/proto/timing.h"

namespace ps::proto {

/// For how long a worker or a shard has not heard its coordinator. When the coordinator's machine
/// or the network is gone, TCP may take a quarter of an hour to close the connection.
class CoordinatorSilence {
 public:
  void Heard(TimePoint now) { heard_ = now; }

  /// To be called at every tick; the wait for the coordinator begins with the first. If this
  /// process itself stood still for longer than `pause_least`, it could hear nobody, so that time
  /// does not count. Returns that time, else 0.
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

  /// Whether the process has to end. Of a connection that is open, heartbeats were not answered.
  bool IsTooLong(TimePoint now, bool is_connected, const Timing& timing) const {
    return Of(now) > (is_connected ? std::max(timing.orphan, timing.lease) : timing.orphan);
  }

 private:
  TimePoint heard_{};
  TimePoint last_tick_{};
};

}  // namespace ps::proto
