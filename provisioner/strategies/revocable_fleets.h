#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/planner.h"
#include "provisioner/strategies/revocable_plan.h"

namespace ps::provisioner {

// What the searches for fleets whose machines are revoked have in common.

// Most fleets that they ask `exact` for, and by what factor more when those were not enough.
inline constexpr int kAskedMost = 4096;
inline constexpr int kAskedTimesMore = 4;
// Fleets that are judged at most, families included, and how often the watch is asked meanwhile.
inline constexpr uint64_t kJudgedMost = 20'000;
inline constexpr uint64_t kJudgedPerQuestion = 64;
// Their bounds and ExpectRun reckon on grids of other widths: a share may be off by this much.
inline constexpr double kGridDoubt = 0.1;

/// Workers of each class in a fleet, and the seconds of their steps there.
struct ClassSteps {
  std::vector<int> counts;
  std::vector<double> step_s;
};

ClassSteps StepsIn(const PlanProblem& problem, const FleetChoice& choice);

/// A choice with what revocations make of it; the choice's own figures are those without.
struct ExpectedFleet {
  FleetChoice choice;
  double seconds = 0;  // with successors and the take-over, in the mean
  double usd = 0;
  double seconds_sure = 0;  // at the goal's confidence
  double usd_sure = 0;
};

/// Nothing: it hardly gets on at all.
std::optional<ExpectedFleet> ExpectFleet(
    const PlanProblem& problem,
    const FleetLives& lives,
    const FleetJudge& judge,
    const FleetChoice& choice);

/// A fleet that keeps the goal's time and costs no more than `usd` takes at most so long.
double SecondsMost(const PlanProblem& problem, const FleetJudge& judge, double usd);

/// The machines of a problem that live differently, and how each of them does.
std::vector<UpShares> DifferentLives(const FleetLives& lives);

/// `exact` fills the cheaper of two offers of a class first. Where they live differently the dearer
/// one may be better.
class FleetFamilies {
 public:
  /// `is_given`: it is the fleet itself. False: no more of them.
  using See = std::function<bool(const FleetChoice& choice, bool is_given)>;

  /// All three outlive it.
  FleetFamilies(const PlanProblem& problem, const FleetLives& lives, FleetJudge* judge);

  /// A fleet that `exact` answers, then those that have as many of each class in another way.
  /// False: `see` was.
  bool ForEach(const FleetChoice& choice, const See& see) const;

 private:
  struct Walk {
    const FleetChoice& given;
    const See& see;
    std::vector<int> counts;
    bool goes_on = true;
  };

  void Spread(size_t mixed, Walk* walk) const;
  void Fill(size_t mixed, size_t rung, int left, Walk* walk) const;

  const PlanProblem& problem_;
  FleetJudge* const judge_;
  std::vector<const std::vector<int>*> mixed_;  // ladders whose offers live differently
};

}  // namespace ps::provisioner
