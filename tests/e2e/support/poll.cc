#include "tests/e2e/support/poll.h"

#include <thread>

namespace ps::e2e {

bool WaitUntil(const std::function<bool()>& condition, Duration deadline, Duration period) {
  const TimePoint end = SystemTime().Now() + deadline;
  while (!condition()) {
    if (SystemTime().Now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(period);
  }
  return true;
}

}  // namespace ps::e2e
