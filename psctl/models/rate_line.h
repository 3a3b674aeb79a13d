#pragma once

#include <cstdint>
#include <string>

#include "ps/base/time.h"
#include "run/report/console.h"

namespace ps::psctl {

/// A line on stderr, where that is a terminal, with how many samples are done and how many a
/// second. It goes with the object. Thread: one.
class RateLine {
 public:
  /// `console` outlives it.
  RateLine(const run::Console& console, uint64_t samples)
      : console_(console), samples_(samples), begun_(SystemTime().Now()) {}

  RateLine(const RateLine&) = delete;
  RateLine& operator=(const RateLine&) = delete;
  ~RateLine();

  /// So many are done. Cheap enough for every batch.
  void Show(uint64_t done);

  /// "1,000 samples in 0.42 s, 2,381 a second".
  std::string Summary() const;

 private:
  double Taken() const { return Seconds(SystemTime().Now() - begun_); }

  const run::Console& console_;
  const uint64_t samples_;
  const TimePoint begun_;
  TimePoint next_;
  bool is_shown_ = false;
};

}  // namespace ps::psctl
