#include "ps/base/log_limiter.h"

#include <utility>

namespace ps {

LogLimiter::Verdict LogLimiter::Admit(std::string_view event, TimePoint now) {
  auto it = windows_.find(event);
  if (it == windows_.end()) {
    it = windows_.emplace(event, Window{.began = now}).first;
  }
  Window& window = it->second;
  if (now - window.began >= kWindow) {
    window.began = now;
    window.lines = 0;
  }
  if (window.lines == kLinesMax) {
    ++window.left_out;
    return {};
  }
  ++window.lines;
  return {true, window.lines == kLinesMax, std::exchange(window.left_out, 0)};
}

std::map<std::string, uint64_t> LogLimiter::TakeLeftOut() {
  std::map<std::string, uint64_t> left_out;
  for (auto& [event, window] : windows_) {
    if (window.left_out > 0) {
      left_out[event] = std::exchange(window.left_out, 0);
    }
  }
  return left_out;
}

}  // namespace ps
