#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "ps/base/status.h"
#include "ps/base/time.h"

namespace ps::run {

/// What the coordinator's process leaves in memory of its supervisor, which outlives it.
struct SharedState {
  std::atomic<bool> is_journal_behind = false;  // JobJournal::TellOf
  /// Grows while the coordinator's loop runs. 0: it does not run yet, or any more.
  std::atomic<uint64_t> beats = 0;
  /// As long as the loop may stand still, in ms.
  std::atomic<uint32_t> standstill_max_ms = 0;
};

/// Memory that this process shares with those that it forks. It is never given back. Errors: kIo.
Result<SharedState*> MakeSharedState();

/// Finds out whether a process stands still, by its beats. Looks that come late say nothing: this
/// process, or the machine, stood still as well.
class BeatWatch {
 public:
  static constexpr Duration kLookEvery = std::chrono::seconds(1);

  /// Called every kLookEvery. True once the beats have been the same for longer than `limit`, and
  /// not again before as long.
  bool StandsStill(uint64_t beats, Duration limit, TimePoint now);

 private:
  std::optional<TimePoint> looked_at_;
  uint64_t beats_ = 0;
  TimePoint since_{};
};

}  // namespace ps::run
