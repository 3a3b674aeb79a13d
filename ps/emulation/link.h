#pragma once

#include <algorithm>
#include <cstdint>

#include "ps/base/time.h"

namespace ps::emulation {

/// A token bucket for bytes: what one way of a link of this rate would let through. Senders book
/// bytes one after the other and move them when their time has come, so that each gets a turn.
/// Pure; one thread.
class LinkRate {
 public:
  /// What may move at once after a rest: a few segments, as a network card does.
  static constexpr uint64_t kBurstBytes = 64U << 10;
  /// The most that one booking should ask for, so that turns stay short.
  static constexpr uint64_t kTurnBytes = 64U << 10;

  /// Requires: bytes_per_s > 0.
  explicit LinkRate(double bytes_per_s) : bytes_per_s_(bytes_per_s) {}

  /// Books `bytes` behind what is booked already. They may move from the returned time on, which is
  /// `now` or later.
  TimePoint Book(uint64_t bytes, TimePoint now) {
    free_at_ = std::max(free_at_, now - SecondsOf(kBurstBytes));
    free_at_ += SecondsOf(bytes);
    return std::max(now, free_at_);
  }

 private:
  Duration SecondsOf(uint64_t bytes) const {
    return FromSeconds(static_cast<double>(bytes) / bytes_per_s_);
  }

  double bytes_per_s_;
  TimePoint free_at_{};  // when all that is booked has passed
};

/// Both ways of a link, which do not disturb each other.
struct Link {
  explicit Link(double bytes_per_s) : send(bytes_per_s), receive(bytes_per_s) {}

  LinkRate send;
  LinkRate receive;
};

}  // namespace ps::emulation
