#pragma once

#include <memory>
#include <vector>

#include "provisioner/planner/planner.h"
#include "provisioner/strategies/expected_run.h"
#include "provisioner/strategies/lifetimes.h"
#include "ps/base/status.h"

namespace ps::provisioner {

// Plans whose machines are revoked: what that does to a fleet, and the fleet that is cheapest when
// it is counted.

/// How the machines of an offer live.
struct OfferLife {
  const LifetimeLaw* law = nullptr;  // null: they stay
  double start_up_s = 0;             // from asking for a successor until its machine is up
  // Ages of machines that run already, as far as known: all others are new when the run begins.
  std::vector<double> ages_hours = {};
};

/// How those of a problem do.
struct FleetLives {
  std::vector<OfferLife> offers;                        // in the problem's order
  double detect_s = 0;                                  // until a revocation is known
  double join_s = 0;                                    // of a successor, until its first step
  std::vector<std::unique_ptr<LifetimeLaw>> laws = {};  // that are no one else's

  bool HasLaw() const;
};

/// Equal machines of an offer.
struct AgeGroup {
  int count = 0;
  double age_hours = 0;
};

/// The ages of `count` machines of an offer when the run begins: of those that run, the ones that
/// are the least likely to be revoked within `hours` are kept first, and the others are new.
std::vector<AgeGroup> AgesOf(const OfferLife& life, int count, double hours);

/// Time and cost of a choice until its loss, in the mean: ExpectRun with each worker at the speed
/// that it has in the whole fleet, of machines as old as AgesOf says. The take-over is not in it.
/// Requires: the choice has steps. Errors: as ExpectRun.
Result<RunExpectation> ExpectChoice(
    const PlanProblem& problem,
    const FleetChoice& choice,
    const FleetLives& lives,
    bool is_replaced);

/// A fleet costs at least this share of what it would cost without revocations, if it takes at most
/// `seconds`. 1 where all workers live by the same law: they are paid for as long as they work.
/// Else a group that is dear for its speed may be gone for longer than the others.
double LeastCostShare(const FleetLives& lives, double seconds);

/// The cheapest fleets of those that meet the goal with revocations, as ExpectChoice has them, each
/// successor included. The choices' own time and cost are those without. `exact` answers in the
/// order of cost without revocations; fleets are judged in that order until none that is left can
/// be cheaper, by LeastCostShare. With each fleet go those that take other offers of the same
/// classes, which `exact` leaves out as they are dearer. So the answer is as certain as that of
/// `exact`, or, where more fleets come into question than are judged (some thousands), the best
/// that was found.
Result<PlanAnswer> SolveWithRevocations(
    const Strategy& exact, const PlanProblem& problem, const FleetLives& lives);

}  // namespace ps::provisioner
