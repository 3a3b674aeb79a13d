#include "provisioner/strategies/revocable_fleets.h"

#include <algorithm>
#include <cmath>

#include "provisioner/planner/numbers.h"

namespace ps::provisioner {
namespace {

bool IsSameLife(const OfferLife& a, const OfferLife& b) {
  const bool is_of_one_age = a.ages_hours.empty() && b.ages_hours.empty();
  return a.law == b.law && (a.law == nullptr || (a.start_up_s == b.start_up_s && is_of_one_age));
}

}  // namespace

ClassSteps StepsIn(const PlanProblem& problem, const FleetChoice& choice) {
  ClassSteps steps = {std::vector<int>(problem.speed->classes().size(), 0), {}};
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    steps.counts[static_cast<size_t>(problem.offers[i].worker_class)] += choice.counts[i];
  }
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  steps.step_s =
      problem.speed->StepSeconds(steps.counts, {choice.server_hosts, server.link_bytes_per_s});
  return steps;
}

std::optional<ExpectedFleet> ExpectFleet(
    const PlanProblem& problem,
    const FleetLives& lives,
    const FleetJudge& judge,
    const FleetChoice& choice) {
  const Result<RunExpectation> run = ExpectChoice(problem, choice, lives, true);
  if (!run.ok()) {
    return std::nullopt;
  }
  ExpectedFleet expected = {
      choice,
      run->seconds + choice.seconds - run->seconds_without,
      run->usd + choice.usd - run->usd_without};
  expected.seconds_sure = judge.SecondsAtConfidence(
      TraitsOf(choice.speed, WorkersOf(choice.counts)),
      choice.server_hosts,
      expected.seconds,
      choice.start_s);
  expected.usd_sure = expected.usd * expected.seconds_sure / expected.seconds;
  return expected;
}

double SecondsMost(const PlanProblem& problem, const FleetJudge& judge, double usd) {
  double server = kInfinity;
  for (const ServerOffer& some : problem.servers) {
    server = std::min(server, some.usd_per_hour * some.hosts_min);
  }
  // Workers may all be gone for a while, servers are paid for all the time.
  const double by_usd = server > 0 ? usd / server * kSecondsPerHour : kInfinity;
  return std::min(by_usd, problem.goal.seconds_max / std::min(judge.quantile_factor(), 1.0));
}

std::vector<UpShares> DifferentLives(const FleetLives& lives) {
  std::vector<UpShares> different;
  const auto add = [&](const OfferLife& life, double age_hours) {
    const double back_s = life.law == nullptr ? 0 : lives.detect_s + life.start_up_s + lives.join_s;
    const bool is_known = std::ranges::any_of(different, [&](const UpShares& other) {
      return other.lifetimes == life.law && other.back_s == back_s && other.age_hours == age_hours;
    });
    if (!is_known) {
      different.push_back({life.law, back_s, age_hours});
    }
  };
  for (const OfferLife& life : lives.offers) {
    add(life, 0);
    for (const double age : life.law == nullptr ? std::vector<double>() : life.ages_hours) {
      add(life, age);
    }
  }
  return different;
}

FleetFamilies::FleetFamilies(const PlanProblem& problem, const FleetLives& lives, FleetJudge* judge)
    : problem_(problem), judge_(judge) {
  const auto life_of = [&](int offer) -> const OfferLife& {
    return lives.offers[static_cast<size_t>(offer)];
  };
  for (const std::vector<int>& ladder : judge->ladders()) {
    const bool is_mixed = std::ranges::any_of(ladder, [&](int rung) {
      return rung != ladder.front() && !IsSameLife(life_of(rung), life_of(ladder.front()));
    });
    if (is_mixed) {
      mixed_.push_back(&ladder);
    }
  }
}

bool FleetFamilies::ForEach(const FleetChoice& choice, const See& see) const {
  if (!see(choice, true)) {
    return false;
  }
  // The fleet that runs already is there as it is: its family comes with the one of the ladders.
  if (mixed_.empty() || !judge_->ClimbsLadders(choice.counts, choice.server_offer)) {
    return true;
  }
  Walk walk{.given = choice, .see = see, .counts = choice.counts};
  Spread(0, &walk);
  return walk.goes_on;
}

void FleetFamilies::Spread(size_t mixed, Walk* walk) const {
  if (mixed < mixed_.size()) {
    int left = 0;
    for (const int rung : *mixed_[mixed]) {
      left += walk->given.counts[static_cast<size_t>(rung)];
    }
    Fill(mixed, 0, left, walk);
  } else if (walk->counts != walk->given.counts && !judge_->IsHeld(walk->counts)) {
    const FleetChoice& given = walk->given;
    walk->goes_on =
        walk->see(judge_->Choose(walk->counts, given.server_offer, given.server_hosts), false);
  }
}

void FleetFamilies::Fill(size_t mixed, size_t rung, int left, Walk* walk) const {
  const std::vector<int>& ladder = *mixed_[mixed];
  const auto i = static_cast<size_t>(ladder[rung]);
  const Offer& offer = problem_.offers[i];
  const bool is_last = rung + 1 == ladder.size();
  const int low = is_last ? std::max(left, offer.held) : offer.held;
  for (int count = low; count <= std::min(left, offer.quota) && walk->goes_on; ++count) {
    walk->counts[i] = count;
    if (is_last) {
      Spread(mixed + 1, walk);
    } else {
      Fill(mixed, rung + 1, left - count, walk);
    }
  }
}

}  // namespace ps::provisioner
