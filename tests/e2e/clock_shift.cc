// Preloaded into a program: its wall clock is CLOCK_SHIFT_S seconds ahead (or behind, below zero).
// Monotonic clocks stay, as on another machine whose time is set wrong.

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

time_t Shift() {
  const char* const text = std::getenv("CLOCK_SHIFT_S");
  return text == nullptr ? time_t{0} : static_cast<time_t>(std::atol(text));
}

}  // namespace

// The kernel is asked: to look for the next function of this name would take memory, and so ask for
// the time again where that is watched.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = ::syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    time->tv_sec += Shift();
  }
  return static_cast<int>(result);
}

extern "C" time_t time(time_t* out) noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) {
    *out = now.tv_sec;
  }
  return now.tv_sec;
}
