#pragma once

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
};

/// What a revocation costs, of one worker: the others go on.
struct RevocationTimes {
  double start_up_s = 0;  // from asking for a machine until it is up
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

}  // namespace ps::provisioner
