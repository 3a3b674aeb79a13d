#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/strategies/revocable_fleets.h"
#include "ps/base/random.h"
#include "tests/provisioner/planner/planning_samples.h"

namespace ps::provisioner {

enum class LifeShape : unsigned char { kOneLaw, kOwnLaws, kOwnLawsAndAges };

/// Lives of which some revoke most machines before the goal's time is over. Machines on demand
/// stay.
inline FleetLives RandomLives(uint64_t seed, const PlanProblem& problem, LifeShape shape) {
  const bool is_one_law = shape == LifeShape::kOneLaw;
  Random random(seed);
  FleetLives lives;
  lives.detect_s = 2;
  lives.join_s = 1;
  const double seconds = std::min(problem.goal.seconds_max, 20'000.0);
  const double hours = seconds / 3600;
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    OfferLife& life = lives.offers.emplace_back();
    life.start_up_s = seconds * (is_one_law ? 0.05 : 0.15 * random.Unit());
    if (problem.offers[i].market != proto::Market::kSpot || (!is_one_law && random.Chance(0.2))) {
      continue;
    }
    if (lives.laws.empty() || !is_one_law) {
      const double early = 0.5 * random.Unit();
      const auto law = LifetimeLaw::FromPoints(
          {{0.3 * hours, early}, {hours, early + 0.4 * random.Unit()}, {3 * hours, 0.95}});
      EXPECT_TRUE(law.ok()) << law.status();
      lives.laws.push_back(std::make_unique<LifetimeLaw>(*law));
    }
    life.law = lives.laws.back().get();
    for (int n = 0; shape == LifeShape::kOwnLawsAndAges && n < RunningOf(problem, i); ++n) {
      if (random.Chance(0.8)) {
        life.ages_hours.push_back(2 * hours * random.Unit());
      }
    }
  }
  return lives;
}

/// Whether a dearer offer is used while there is a cheaper one that lives alike: never better.
inline bool IsDominated(
    const PlanProblem& problem,
    const FleetJudge& judge,
    const FleetLives& lives,
    const std::vector<int>& counts) {
  for (const std::vector<int>& ladder : judge.ladders()) {
    for (size_t rung = 1; rung < ladder.size(); ++rung) {
      const auto cheaper = static_cast<size_t>(ladder[rung - 1]);
      const auto dearer = static_cast<size_t>(ladder[rung]);
      const OfferLife& life = lives.offers[dearer];
      if (lives.offers[cheaper].law == life.law && life.ages_hours.empty() &&
          lives.offers[cheaper].ages_hours.empty() &&
          counts[cheaper] < problem.offers[cheaper].quota &&
          counts[dearer] > problem.offers[dearer].held) {
        return true;
      }
    }
  }
  return false;
}

/// Every fleet on offer that meets the goal with revocations.
inline void ForEachGoodFleet(
    const PlanProblem& problem,
    const FleetLives& lives,
    const std::function<void(const ExpectedFleet& fleet)>& see) {
  FleetJudge judge(problem);
  ForEachFleet(problem, judge, [&](const std::vector<int>& counts, int server, int hosts) {
    if (IsDominated(problem, judge, lives, counts)) {
      return;
    }
    const FleetChoice choice = judge.Choose(counts, server, hosts);
    const std::optional<ExpectedFleet> fleet =
        std::isfinite(choice.seconds) ? ExpectFleet(problem, lives, judge, choice) : std::nullopt;
    if (fleet && fleet->seconds_sure <= problem.goal.seconds_max &&
        fleet->usd_sure <= problem.goal.usd_max) {
      see(*fleet);
    }
  });
}

}  // namespace ps::provisioner
