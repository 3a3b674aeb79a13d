#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ps::run {

/// Lines for people, from a thread that decides to the one that shows how a run goes. Of those that
/// nobody takes, the first ones are kept.
class SaidLines {
 public:
  void Say(const std::string& line) {
    constexpr size_t kLinesMax = 100;
    const std::lock_guard lock(mutex_);
    if (lines_.size() < kLinesMax) {
      lines_.push_back(line);
    }
  }

  /// Since the last call.
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;  // under the mutex
};

}  // namespace ps::run
