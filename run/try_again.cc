#include "run/try_again.h"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "ps/base/text.h"

namespace ps::run {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(500);

}  // namespace

Status TryAgain(
    const std::function<TryOutcome()>& attempt,
    const std::function<Duration()>& grace,
    const TryAgainWorld& world) {
  const TimePoint begin = world.clock->Now();
  std::string told;
  while (true) {
    TryOutcome outcome = attempt();
    if (outcome.status.ok() || outcome.is_final) {
      return std::move(outcome.status);
    }
    const Duration left = grace() - (world.clock->Now() - begin);
    if (left <= Duration::zero()) {
      return std::move(outcome.status);
    }
    std::string why(outcome.status.message());
    if (why != told) {
      world.say(fmt::format(
          "the run can't go on yet: {}; trying again for {}\n",
          Printable(why),
          FormatDuration(Seconds(left))));
      told = std::move(why);
    }
    if (!world.wait(std::min(left, kPause))) {
      return Status::Cancelled("ended by request before the coordinator was back");
    }
  }
}

bool WaitUnlessStopped(Duration duration) {
  sigset_t stops;
  ::sigemptyset(&stops);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    ::sigaddset(&stops, number);
  }
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  const timespec timeout = {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  return ::sigtimedwait(&stops, nullptr, &timeout) < 0;  // EAGAIN or EINTR: none came
}

}  // namespace ps::run
