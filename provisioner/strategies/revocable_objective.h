#pragma once

#include <map>
#include <vector>

#include "provisioner/planner/planner.h"
#include "provisioner/strategies/expected_run.h"
#include "provisioner/strategies/revocable_plan.h"
#include "ps/base/status.h"

namespace ps::provisioner {

// What "exact" chooses when it is not to be the cheapest, and machines are revoked and replaced.

/// As SolveForTime, by ExpectChoice: the fleet that is soonest at the loss with revocations, each
/// successor included, within the goal's limits, and the cheapest of those that are equally soon.
/// The choice's own time and cost are those without. Revocations never make a fleet faster, so all
/// fleets are judged whose time without is short enough for one to be sooner (MostUpShare); where
/// some thousands are, the answer is `best_found`.
Result<PlanAnswer> SolveForTimeWithRevocations(const PlanProblem& problem, const FleetLives& lives);

/// What a fleet does over its next kHoursAhead hours, in the mean, with successors.
struct HourExpectation {
  double samples_per_s = 0;
  double usd_per_hour = 0;  // with its servers; machines that are gone cost nothing
  double revoked = 0;       // machines in all these hours
};

inline constexpr double kHoursAhead = 24;

/// What an hour of a fleet of one problem is expected to give; the seats of its offers are computed
/// once. Both arguments outlive it.
class FleetHours {
 public:
  FleetHours(const PlanProblem& problem, const FleetLives& lives);

  HourExpectation Expect(const FleetChoice& choice) const;

  /// The share of the time that some seat works, at most.
  double MostUp() const;

 private:
  const PlanProblem& problem_;
  const FleetLives& lives_;
  std::vector<std::map<double, SeatExpectation>> seats_;  // by offer and age in hours
};

/// As SolveForThroughput, by FleetHours. An hour of the whole fleet, with nobody revoked, costs at
/// most `goal.usd_per_hour_max`: no hour costs more.
Result<PlanAnswer> SolveForThroughputWithRevocations(
    const PlanProblem& problem, const FleetLives& lives);

/// No fleet does more in `to_s`, or in any time from `from_s` to then, than this share of what it
/// would do if nobody were revoked.
double MostUpShare(const FleetLives& lives, double from_s, double to_s);

}  // namespace ps::provisioner
