#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/claims/paper_problem.h"
#include "provisioner/claims/seed_claims.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/objective.h"

namespace ps::provisioner {
namespace {

constexpr char kSrift[] = "srift";
constexpr int kBudgets = 12;  // 1 to 12 USD an hour

/// How people choose machines without a planner.
enum class UsualChoice : unsigned char { kOneType, kOnDemand, kMostDevices, kCheapestHour };

/// A choice within a price of an hour.
struct Bought {
  double usd_per_hour = 0;
  double samples_per_s = 0;
};

Goal WithinAnHour(double usd) {
  return {
      .seconds_max = std::numeric_limits<double>::infinity(),
      .usd_max = std::numeric_limits<double>::infinity(),
      .usd_per_hour_max = usd};
}

/// As many machines of one offer as the price and the quota allow.
Bought BuyOne(const PlanProblem& problem, FleetJudge* judge, size_t offer, double usd_max) {
  Bought bought;
  std::vector<int> counts(problem.offers.size(), 0);
  for (int& count = counts[offer]; count < problem.offers[offer].quota;) {
    ++count;
    const double usd = judge->UsdPerSecond(counts, 0, 1) * 3600;
    if (usd > usd_max) {
      break;
    }
    bought = {usd, judge->Choose(counts, 0, 1).speed.samples_per_s};
  }
  return bought;
}

/// The offer that comes first by `is_before`, of those in the problem.
size_t FirstOffer(
    const PlanProblem& problem, const std::function<bool(const Offer&, const Offer&)>& is_before) {
  size_t first = 0;
  for (size_t i = 1; i < problem.offers.size(); ++i) {
    first = is_before(problem.offers[i], problem.offers[first]) ? i : first;
  }
  return first;
}

Result<Bought> Fastest(const PlanProblem& problem) {
  PS_ASSIGN(const PlanAnswer answer, SolveForThroughput(problem));
  if (answer.best.empty()) {
    return Bought();
  }
  const FleetChoice& best = answer.best.front();
  return Bought{
      FleetJudge(problem).UsdPerSecond(best.counts, best.server_offer, best.server_hosts) * 3600,
      best.speed.samples_per_s};
}

/// Both problems have the same limit of the price of an hour.
Result<Bought> UsuallyBought(
    UsualChoice choice, const PlanProblem& spot, const PlanProblem& on_demand) {
  const double usd_max = spot.goal.usd_per_hour_max;
  FleetJudge judge(spot);
  const auto devices = [&](const Offer& offer) {
    return spot.speed->classes()[static_cast<size_t>(offer.worker_class)].devices;
  };
  Bought best;
  switch (choice) {
    case UsualChoice::kOneType:
      for (size_t i = 0; i < spot.offers.size(); ++i) {
        const Bought one = BuyOne(spot, &judge, i, usd_max);
        best = one.samples_per_s > best.samples_per_s ? one : best;
      }
      return best;
    case UsualChoice::kOnDemand:
      return Fastest(on_demand);
    case UsualChoice::kMostDevices:
      return BuyOne(
          spot,
          &judge,
          FirstOffer(spot, [&](const Offer& a, const Offer& b) { return devices(a) > devices(b); }),
          usd_max);
    case UsualChoice::kCheapestHour:
      break;
  }
  return BuyOne(
      spot,
      &judge,
      FirstOffer(
          spot, [](const Offer& a, const Offer& b) { return a.usd_per_hour < b.usd_per_hour; }),
      usd_max);
}

/// USD an hour of the cheapest fleet that is as fast.
Result<double> CheapestAsFast(const PlanProblem& problem, const Bought& bought) {
  PlanProblem as_fast = problem;
  as_fast.goal.usd_per_hour_max = bought.usd_per_hour;
  PS_ASSIGN(PlanProblem samples, SamplesProblem(as_fast));
  FleetJudge judge(samples);
  // Samples are times there: the cheapest fleet in the time that the other one takes.
  PS_ASSIGN(const PlanAnswer any, MakeStrategy("exact")->Solve(samples));
  if (any.best.empty()) {
    return bought.usd_per_hour;
  }
  const FleetChoice& some = any.best.front();
  samples.goal.seconds_max =
      some.seconds * some.speed.samples_per_s / bought.samples_per_s * (1 + 1e-9);
  double least = bought.usd_per_hour;
  samples.answers_max = 1;
  // A fleet that is cheaper for all samples may be so by being faster, so the hour is narrowed.
  while (true) {
    samples.goal.usd_per_hour_max = least * (1 - 1e-6);
    PS_ASSIGN(const PlanAnswer answer, MakeStrategy("exact")->Solve(samples));
    if (answer.best.empty()) {
      return least;
    }
    const FleetChoice& best = answer.best.front();
    least = judge.UsdPerSecond(best.counts, best.server_offer, best.server_hosts) * 3600;
  }
}

/// The most that our choice is better by, over all prices of an hour that buy both.
Result<double> MostGained(const ClaimFolders& folders, UsualChoice choice, bool is_cost) {
  double most = 0;
  for (int usd = 1; usd <= kBudgets; ++usd) {
    PS_ASSIGN(const auto spot, LoadPaperProblem(folders, {.goal = WithinAnHour(usd)}));
    PS_ASSIGN(
        const auto on_demand,
        LoadPaperProblem(folders, {.market = MarketChoice::kOnDemand, .goal = WithinAnHour(usd)}));
    PS_ASSIGN(const Bought usual, UsuallyBought(choice, spot->problem, on_demand->problem));
    if (usual.samples_per_s == 0) {
      continue;
    }
    if (is_cost) {
      PS_ASSIGN(const double usd_per_hour, CheapestAsFast(spot->problem, usual));
      most = std::max(most, usual.usd_per_hour / usd_per_hour);
    } else {
      PS_ASSIGN(const Bought ours, Fastest(spot->problem));
      most = std::max(most, ours.samples_per_s / usual.samples_per_s);
    }
  }
  return most;
}

}  // namespace

void AddSriftClaims(const ClaimFolders& folders, std::vector<Claim>* claims) {
  const struct {
    UsualChoice choice;
    const char* name;
    double faster;  // as recorded
    double cheaper;
  } rows[] = {
      {UsualChoice::kOneType, "the best type alone", 1.30, 1.26},
      {UsualChoice::kOnDemand, "machines on demand", 5.00, 3.19},
      {UsualChoice::kMostDevices, "the most devices", 3.54, 1.97},
      {UsualChoice::kCheapestHour, "the cheapest hour", 2.63, 1.00}};

  for (const bool is_cost : {false, true}) {
    for (const auto& row : rows) {
      claims->push_back(
          {.seed = kSrift,
           .is_headline = true,
           .text = std::string(
                       is_cost ? "cheaper at equal speed than " : "faster at equal price than ") +
                   row.name + ", up to",
           .published = is_cost ? 1.6 : 2,
           .unit = " x",
           .recorded = is_cost ? row.cheaper : row.faster,
           .how = "ResNet-110 and types of spotDNN, 1 to 12 USD/h, by our queue; Srift does not "
                  "say what its baselines bought",
           .command = "psctl plan --profile configs/profiles/resnet110_cifar100_spotdnn.json "
                      "--catalog configs/catalog/spotdnn_paper.json --servers m5.xlarge=1 "
                      "--objective throughput-per-hour --price-per-hour 6",
           .ours = [folders, kind = row.choice, is_cost] {
             return MostGained(folders, kind, is_cost);
           }});
    }
  }
  claims->push_back(
      {.seed = kSrift,
       .text = "error of a step's time, over 2,000 setups",
       .published = 8,
       .unit = " %",
       .digits = 0,
       .better = Better::kLower,
       .why_not = "its setups are not published; netns_experiment has 36 of one job, 0.6 and 6.2 "
                  "to 8.8 % in the median"});
}

}  // namespace ps::provisioner
