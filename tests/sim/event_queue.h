#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "ps/base/time.h"

namespace ps::sim {

/// Virtual time and what is to happen in it. Events at the same instant run in the order they were
/// added, so a seed gives one history.
class EventQueue final : public TimeSource {
 public:
  TimePoint Now() const override { return now_; }

  int64_t UnixMicros() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(now_.time_since_epoch()).count();
  }

  void After(Duration delay, std::function<void()> action) {
    events_.emplace(std::pair(now_ + delay, next_sequence_++), std::move(action));
  }

  /// Runs the earliest event. False when there is none.
  bool RunOne() {
    if (events_.empty()) {
      return false;
    }
    auto first = events_.extract(events_.begin());
    now_ = first.key().first;
    first.mapped()();
    return true;
  }

 private:
  TimePoint now_{std::chrono::seconds(1)};
  uint64_t next_sequence_ = 0;
  std::map<std::pair<TimePoint, uint64_t>, std::function<void()>> events_;
};

}  // namespace ps::sim
