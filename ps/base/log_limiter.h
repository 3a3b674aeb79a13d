#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ps/base/time.h"

namespace ps {

/// Which lines of a log are written when one event happens again and again, as when strangers knock
/// at a port: the first ones of each event in a while; the others are counted. Thread: one.
class LogLimiter {
 public:
  static constexpr uint32_t kLinesMax = 20;  // of an event in a window
  static constexpr Duration kWindow = std::chrono::seconds(10);

  struct Verdict {
    bool passes = false;
    bool is_last = false;   // no more of this event until the window is over
    uint64_t repeated = 0;  // times that it was left out since the line before
  };

  /// `event` happens now.
  Verdict Admit(std::string_view event, TimePoint now);
  /// How often an event was left out since its last line, for those that were. Starts over.
  std::map<std::string, uint64_t> TakeLeftOut();

 private:
  struct Window {
    TimePoint began{};
    uint32_t lines = 0;
    uint64_t left_out = 0;
  };

  std::map<std::string, Window, std::less<>> windows_;  // by event, which are constants of code
};

}  // namespace ps
