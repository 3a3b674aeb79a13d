#include "psctl/models/rate_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "ps/base/text.h"

namespace ps::psctl {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(250);
constexpr const char* kErase = "\r\033[K";

}  // namespace

RateLine::~RateLine() {
  if (is_shown_) {
    console_.err(kErase);
  }
}

void RateLine::Show(uint64_t done) {
  const TimePoint now = SystemTime().Now();
  if (!console_.is_err_terminal || now < next_) {
    return;
  }
  next_ = now + kRedraw;
  is_shown_ = true;
  const double rate = static_cast<double>(done) / std::max(Taken(), 1e-9);
  const double left = static_cast<double>(samples_ - done) / std::max(rate, 1e-9);
  const std::string line = fmt::format(
      "{} of {}, {} a second, {} left",
      FormatCount(done),
      Plural(samples_, "sample"),
      FormatRate(rate),
      done == 0 ? "?" : FormatDuration(left));
  console_.err(kErase + Clip(line, console_.err_width ? console_.err_width() : line.size()));
}

std::string RateLine::Summary() const {
  const double seconds = Taken();
  return fmt::format(
      "{} in {}, {} a second",
      Plural(samples_, "sample"),
      FormatDuration(seconds),
      FormatRate(static_cast<double>(samples_) / std::max(seconds, 1e-9)));
}

}  // namespace ps::psctl
