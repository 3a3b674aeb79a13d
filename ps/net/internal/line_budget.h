#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "ps/base/time.h"

namespace ps::net {

/// Bounds the log lines that strangers cause: whoever can reach a port must not be able to fill the
/// disk. There is a limit for each second, and the next line says how many were left out.
class LineBudget {
 public:
  /// Nothing if this line is left out; else how many were left out since the last that was not.
  std::optional<uint64_t> Take(TimePoint now) {
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      taken_ = 0;
    }
    if (taken_ == kLinesPerSecond) {
      ++left_out_;
      return std::nullopt;
    }
    ++taken_;
    return std::exchange(left_out_, 0);
  }

  static constexpr uint32_t kLinesPerSecond = 10;

 private:
  TimePoint second_{};
  uint32_t taken_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace ps::net
