#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

#include "ps/base/time.h"

namespace ps::provisioner {

/// The time of what does not happen.
inline constexpr double kNeverS = std::numeric_limits<double>::infinity();

/// The time of a simulation, in seconds since its beginning; whoever runs it sets it.
class VirtualTime final : public TimeSource {
 public:
  TimePoint Now() const override { return kBegin + FromSeconds(now_s_); }

  int64_t UnixMicros() const override { return static_cast<int64_t>(now_s_ * 1e6); }

  double now_s() const { return now_s_; }

  void Set(double now_s) { now_s_ = now_s; }

 private:
  static constexpr TimePoint kBegin{std::chrono::hours(1)};  // zero stands for "never" in places

  double now_s_ = 0;
};

}  // namespace ps::provisioner
