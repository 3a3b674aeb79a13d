#pragma once

#include <chrono>
#include <cstdint>

namespace ps {

using Duration = std::chrono::nanoseconds;
/// Monotonic; the zero point is arbitrary and differs between processes.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Where time comes from. Nothing outside its implementations reads a physical clock.
class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual TimePoint Now() const = 0;
  /// Microseconds since 1970-01-01 UTC; for log lines and file names only, never for decisions.
  virtual int64_t UnixMicros() const = 0;
};

/// The machine's own clocks. Thread: any.
const TimeSource& SystemTime();

inline double Seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

/// Values beyond what a Duration holds (292 years) become its limits; NaN becomes zero.
inline Duration FromSeconds(double seconds) {
  constexpr double kSecondsMax = 9.2e9;
  if (seconds != seconds) {
    return Duration::zero();
  }
  if (seconds >= kSecondsMax) {
    return Duration::max();
  }
  if (seconds <= -kSecondsMax) {
    return Duration::min();
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace ps
