#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

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
    events_.push_back({now_ + delay, next_sequence_++, std::move(action)});
    std::push_heap(events_.begin(), events_.end());
  }

  /// Runs the earliest event. False when there is none.
  bool RunOne() {
    if (events_.empty()) {
      return false;
    }
    std::pop_heap(events_.begin(), events_.end());
    const Event first = std::move(events_.back());
    events_.pop_back();
    now_ = first.when;
    first.action();
    return true;
  }

 private:
  struct Event {
    TimePoint when;
    uint64_t sequence = 0;
    std::function<void()> action;

    /// Later ones are smaller: a heap's first element is its largest.
    bool operator<(const Event& other) const {
      return std::tie(other.when, other.sequence) < std::tie(when, sequence);
    }
  };

  TimePoint now_{std::chrono::seconds(1)};
  uint64_t next_sequence_ = 0;
  std::vector<Event> events_;  // a heap
};

/// The clock of a process: it shows another time than those of the others, and is no slower.
class NodeClock final : public TimeSource {
 public:
  NodeClock(const TimeSource* time, Duration ahead) : time_(time), ahead_(ahead) {}

  TimePoint Now() const override { return time_->Now() + ahead_; }

  int64_t UnixMicros() const override {
    return time_->UnixMicros() +
           std::chrono::duration_cast<std::chrono::microseconds>(ahead_).count();
  }

 private:
  const TimeSource* time_;
  Duration ahead_;
};

}  // namespace ps::sim
