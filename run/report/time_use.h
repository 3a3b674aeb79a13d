#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ps/proto/messages.h"

namespace ps::run {

/// Where a worker's time went since it has joined, as shares that sum to 1.
struct TimeUse {
  double seconds = 0;  // all of it; 0: nothing is known
  double computing = 0;
  double push = 0;
  double pull = 0;
  double others = 0;  // ssp, bsp: the slowest workers are waited for
  double lease = 0;   // the coordinator has no work for it
  double evaluating = 0;
  double rest = 0;  // threads, the first values, programs of this project alone
};

TimeUse TimeUseOf(const proto::WorkerStats& stats);
/// All workers of the status together, or the seat's.
TimeUse TimeUseOf(const proto::JobStatus& status, const std::optional<WorkerId>& worker);

/// The largest part that is not computing, in a sentence with whose it is: "pushes of worker 3 take
/// 41 % of its time, at 4.8 Mbit/s". Empty: nothing takes a twentieth of anybody's time.
std::string LimitText(const proto::JobStatus& status, const std::optional<WorkerId>& worker);

/// A command or a setting, and what it is expected to bring.
struct Advice {
  std::string what;
  std::string expected;
};

/// What would help, the best first; from the same measures, by the rule of docs/exchange.md.
std::vector<Advice> AdviceFor(
    const proto::JobStatus& status, const std::optional<WorkerId>& worker);

/// What is lost if a worker were killed now: "up to 400 samples (50 minibatches, 37 s of worker 3's
/// work)". They are handed out again, so each counts once. Empty: nobody works.
std::string KillText(const proto::JobStatus& status, const std::optional<WorkerId>& worker);

}  // namespace ps::run
