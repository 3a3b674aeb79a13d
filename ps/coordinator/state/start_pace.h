#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "ps/base/random.h"
#include "ps/base/retry.h"
#include "ps/base/time.h"

namespace ps::coordinator {

/// How soon one start may follow another: the first is at once, those that follow wait 1 s, 2 s and
/// so on up to a minute, each wait varied by +-25 %. The one rule for workers and for servers.
class StartPace {
 public:
  /// The next start may be then; in the past: at once.
  TimePoint ready_at() const { return ready_at_; }

  /// So many starts were made by another process, the last one perhaps now.
  void Recall(uint32_t starts, TimePoint now, Random* random) {
    last_ = now;
    for (uint32_t i = 0; i < std::min(starts, kRecalledMax); ++i) {
      ready_at_ = now + backoff_.Next(random);
    }
  }

  void NoteStart(TimePoint now, Random* random) {
    if (now - last_ > kCalm) {
      backoff_.Reset();
    }
    last_ = now;
    ready_at_ = now + backoff_.Next(random);
  }

 private:
  static constexpr Duration kFirst = std::chrono::seconds(1);
  static constexpr Duration kLimit = std::chrono::seconds(60);
  /// After so long without a start the next one is at once again.
  static constexpr Duration kCalm = std::chrono::minutes(2);
  static constexpr uint32_t kRecalledMax = 16;  // the waits are at their limit then

  Backoff backoff_{kFirst, kLimit};
  TimePoint last_{};
  TimePoint ready_at_{};
};

}  // namespace ps::coordinator
