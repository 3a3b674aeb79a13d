#pragma once

#include <functional>
#include <string>

#include "ps/base/status.h"
#include "ps/base/time.h"

namespace ps::run {

/// How TryAgain waits and tells; a test brings its own.
struct TryAgainWorld {
  const TimeSource* clock = &SystemTime();
  /// Returns false when a request to stop came meanwhile.
  std::function<bool(Duration)> wait;
  /// Gets a line when an attempt has failed for another reason than the one before.
  std::function<void(const std::string& line)> say;
};

/// One attempt and what another one might come to.
struct TryOutcome {
  Status status;
  bool is_final = false;  // another attempt would fail for the same reason
};

/// Tries until `attempt` succeeds, or its failure is final, or `grace` is over since the first one,
/// or a request to stop comes. Who takes over a run calls it for all that it needs: a port that is
/// still in use, a file that can't be read for a second, must not end what others wait for.
/// `grace` is asked after each attempt, which may have found out how long it is. Returns the last
/// reason; kCancelled after a request to stop.
Status TryAgain(
    const std::function<TryOutcome()>& attempt,
    const std::function<Duration()>& grace,
    const TryAgainWorld& world);

/// TryAgainWorld::wait for requests to stop that are blocked, as they are in the process of a
/// coordinator that goes on with a run until AcceptStopSignals.
bool WaitUnlessStopped(Duration duration);

}  // namespace ps::run
