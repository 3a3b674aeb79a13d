#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/time.h"

namespace ps::coordinator {

/// A type of machine in a zone.
using PlaceKey = std::pair<std::string, std::string>;

/// What is known of a place at one point in time.
struct PlaceView {
  TimePoint ready_at{};   // a worker may be started there; in the past: now
  uint64_t taken = 0;     // the number of its last start, counted over all places; 0: none yet
  uint32_t failures = 0;  // starts in a row that came to nothing
  std::string why;        // the last one did

  /// So many in a row, and the place is left out for a while. Then one worker is started to see.
  static constexpr uint32_t kFailuresInARow = 3;

  bool is_doubtful() const { return failures >= kFailuresInARow; }
};

using PlaceViews = std::map<PlaceKey, PlaceView>;

/// Until a worker may be started, and why not before.
struct PlaceWait {
  Duration wait{};
  bool is_left_out = false;  // all places are; else they are but used less often
  std::string why;
};

/// Nothing: one of `keys` is ready. Requires: `views` has all of `keys`, here and below.
std::optional<PlaceWait> WaitOf(
    const std::vector<PlaceKey>& keys, const PlaceViews& views, TimePoint now);

/// Among those that are ready, the one that was taken longest ago; when none is, the one that is
/// ready first. Requires: `keys` is not empty.
const PlaceKey& ChoosePlace(
    const std::vector<PlaceKey>& keys, const PlaceViews& views, TimePoint now);

}  // namespace ps::coordinator
