#pragma once

#include <optional>
#include <vector>

#include "provisioner/strategies/lifetimes.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// Equal workers of a run.
struct RevocableWorkers {
  int count = 0;
  double steps_per_s = 0;  // of each
  double usd_per_hour = 0;
  const LifetimeLaw* lifetimes = nullptr;  // null: on demand, they stay
  double age_hours = 0;                    // of their machines, when the run begins
  std::optional<double> start_up_s = {};   // instead of that of RevocationTimes
  double usd_per_step = 0;                 // beside it: what its traffic costs
};

/// What a revocation costs, of one worker: the others go on.
struct RevocationTimes {
  double detect_s = 0;    // until the loss is known: its machine is gone, and not paid for
  double start_up_s = 0;  // from asking for a machine until it is up; paid for
  double join_s = 0;      // from there to the first step; paid for
  double lost_s = 0;      // work that was not handed in
  bool is_replaced = true;
};

struct RunExpectation {
  double seconds = 0;
  double usd = 0;
  double revocations = 0;
  double seconds_without = 0;  // as if nobody were revoked
  double usd_without = 0;
};

/// Time and cost until the workers have done `steps` together, in the mean: worker-seconds are
/// summed over what is expected to be up (a renewal process for each group), and the run ends when
/// they suffice. Errors: kInvalidArgument (no workers, numbers below 0), kNotFound (revocations
/// make it more than ten times as long).
Result<RunExpectation> ExpectRun(
    double steps,
    const std::vector<RevocableWorkers>& groups,
    const RevocationTimes& times,
    double server_usd_per_hour);

/// A seat over some time, in the mean.
struct SeatExpectation {
  double works = 0;    // share of the time
  double revoked = 0;  // machines in that time
};

/// What to expect of the seat of one worker over the next `seconds`; its speed and price do not
/// matter.
SeatExpectation ExpectSeat(
    const RevocableWorkers& worker, const RevocationTimes& times, double seconds);

/// By `lifetimes`, on a grid of `cells` of `cell_s` each: the share of the time until the end of
/// each cell that a seat works, on average. `back_s`: from a revocation until the successor works.
struct UpShares {
  const LifetimeLaw* lifetimes = nullptr;
  double back_s = 0;
  double age_hours = 0;  // of the first machine
};

std::vector<double> MeanUpShares(const UpShares& seat, double cell_s, int cells);

/// Seconds of the next `seconds` in which a seat's machine is paid for: it works for `works_s` of
/// them, and after each of `revoked` revocations a successor, if one comes, starts and joins.
double PaidSeconds(
    const RevocableWorkers& worker,
    const RevocationTimes& times,
    double works_s,
    double revoked,
    double seconds);

/// Number of cells into which ExpectRun cuts a run without revocations.
inline constexpr int kCellsAlone = 500;

}  // namespace ps::provisioner
