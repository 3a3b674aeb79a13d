#pragma once

#include "ps/base/time.h"
#include "ps/proto/job/job_config.h"

namespace ps::proto {

/// Every time of the protocol, derived from one knob so that no two can contradict each other:
/// connect_timeout, retry_first < heartbeat < detect < lease. The patience with servers and with a
/// lost coordinator have knobs of their own.
struct Timing {
  Duration heartbeat{};  // how often workers and shards report; max_detect / 6
  Duration detect{};     // silence after which a member is lost; max_detect
  Duration lease{};      // a lease without any progress for this long is taken back; 4 x max_detect
  Duration retry_first{};  // first wait before a request is sent again; max_detect / 12
  Duration retry_limit{};  // retries back off (x2, +-25 % jitter) to at most this; max_detect / 2
  Duration connect_timeout{};  // max_detect / 8
  Duration tick{};             // how often cores look at their timers; max_detect / 24
  Duration server_detect{};    // silence after which a server is lost; 10 x max_detect
  Duration orphan{};           // no coordinator for this long ends a process; 4 x max_detect

  static Timing FromMaxDetect(Duration max_detect) {
    return {
        max_detect / 6,
        max_detect,
        max_detect * 4,
        max_detect / 12,
        max_detect / 2,
        max_detect / 8,
        max_detect / 24,
        max_detect * 10,
        max_detect * 4};
  }

  /// The times of a job. Requires: the config was checked.
  static Timing Of(const JobConfig& config) {
    Timing timing = FromMaxDetect(FromSeconds(static_cast<double>(config.fleet.max_detect_s)));
    if (config.servers.max_detect_s > 0) {
      timing.server_detect = FromSeconds(static_cast<double>(config.servers.max_detect_s));
    }
    timing.orphan = FromSeconds(static_cast<double>(config.fleet.orphan_grace_s));
    return timing;
  }
};

}  // namespace ps::proto
