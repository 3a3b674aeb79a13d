#pragma once

#include "ps/base/time.h"

namespace ps::coordinator {

/// What the machines have cost, in USD: adds up what they cost an hour.
class CostMeter {
 public:
  /// `usd` were spent before.
  void Resume(double usd, TimePoint now) {
    usd_ = usd;
    last_ = now;
  }

  /// They have cost `usd_per_hour` since the last call, or since Resume. The first of all calls
  /// only begins.
  void Add(double usd_per_hour, TimePoint now) {
    if (last_ != TimePoint() && now > last_) {
      usd_ += usd_per_hour * Seconds(now - last_) / 3600;
    }
    last_ = now;
  }

  double usd() const { return usd_; }

 private:
  double usd_ = 0;
  TimePoint last_{};
};

}  // namespace ps::coordinator
