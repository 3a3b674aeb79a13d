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

inline double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

inline Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace ps
