#pragma once

#include "ps/base/time.h"

namespace ps::coordinator {

/// What traffic costs an hour now, by its cost so far: the mean of the last one to two minutes, or
/// of as much as there was.
class TrafficMeter {
 public:
  /// `usd` were spent by now, and `usd` is no less than at the last call.
  void Note(double usd, TimePoint now) {
    if (before_.at == TimePoint()) {
      before_ = last_ = {usd, now};
    } else if (now - last_.at >= kWindow) {
      before_ = last_;
      last_ = {usd, now};
    }
    usd_ = usd;
  }

  double UsdPerHour(TimePoint now) const {
    const double seconds = before_.at == TimePoint() ? 0 : Seconds(now - before_.at);
    return seconds > 0 ? (usd_ - before_.usd) / seconds * 3600 : 0;
  }

 private:
  static constexpr Duration kWindow = std::chrono::minutes(1);

  struct Mark {
    double usd = 0;
    TimePoint at{};
  };

  Mark before_;  // the window's begin
  Mark last_;
  double usd_ = 0;
};

}  // namespace ps::coordinator
