#pragma once

#include "ps/base/time.h"

namespace ps::proto {

/// Every time of the protocol, derived from one knob so that no two can contradict each other:
/// connect_timeout, retry_first < heartbeat < detect < lease.
struct Timing {
  Duration heartbeat{};  // how often workers and shards report; max_detect / 6
  Duration detect{};     // silence after which a member is lost; max_detect
  Duration lease{};      // a lease without any progress for this long is taken back; 4 x max_detect
  Duration retry_first{};  // first wait before a request is sent again; max_detect / 12
  Duration retry_limit{};  // retries back off (x2, +-25 % jitter) to at most this; max_detect / 2
  Duration connect_timeout{};  // max_detect / 8
  Duration tick{};             // how often cores look at their timers; max_detect / 24

  static Timing FromMaxDetect(Duration max_detect) {
    return {
        max_detect / 6,
        max_detect,
        max_detect * 4,
        max_detect / 12,
        max_detect / 2,
        max_detect / 8,
        max_detect / 24};
  }
};

}  // namespace ps::proto
