#include "run/planning/capacity/spot_capacity.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "provisioner/model/prediction_interval.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/zone_prices.h"
#include "ps/base/check.h"
#include "run/planning/capacity/held_pool.h"

namespace ps::run {
namespace {

using CountTimes = std::map<uint32_t, double, std::greater<>>;
using provisioner::CapacityStep;
using provisioner::FleetChoice;
using provisioner::PlanProblem;
using provisioner::SpotMachine;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kHourSeconds = 3600;
constexpr uint64_t kVictimSeed = 1;  // draws who goes when a count falls
constexpr int kPoints = 6;
constexpr uint64_t kEventsPerQuestion = 4096;  // of whether it goes on
constexpr double kFollowed = 2;                // times the limit, where the trace is long enough
// A bound adds the same numbers in another order, so its last digits may differ.
constexpr double kBoundSlack = 1e-9;

/// For how long each count could be had until `end_s`, the largest count first.
CountTimes CountSeconds(std::span<const CapacityStep> steps, double end_s) {
  CountTimes seconds;
  for (size_t i = 0; i < steps.size() && steps[i].at_s < end_s; ++i) {
    const double until_s = i + 1 < steps.size() ? std::min(steps[i + 1].at_s, end_s) : end_s;
    if (until_s > steps[i].at_s) {
      seconds[steps[i].nodes] += until_s - steps[i].at_s;
    }
  }
  return seconds;
}

/// Machines in times since another moment.
std::vector<SpotMachine> Since(double begin_s, const std::vector<SpotMachine>& machines) {
  std::vector<SpotMachine> since;
  for (const SpotMachine& one : machines) {
    since.push_back({std::max(one.begin_s - begin_s, 0.0), one.end_s - begin_s});
  }
  return since;
}

/// What is paid for longer than it is there.
struct LeastBill {
  double usd_per_s = 0;
  double billed_s_min = 0;
};

}  // namespace

struct SpotCapacity::Fleet {
  const FleetChoice& choice;
  std::optional<size_t> spare;
  std::vector<int> wanted;                        // per pool
  int spare_most = 0;                             // of the spare pool
  std::vector<double> usd_per_s;                  // of a machine, per pool
  double usd_always_per_s = 0;                    // of what has no pool, servers among it
  std::vector<LeastBill> least = {};              // of that, by item
  std::vector<int> counts;                        // per class, of what has no pool
  double deviation = 0;                           // of the time that the models say
  std::map<std::vector<int>, double> rates = {};  // steps/s by what works of each pool
  const std::function<bool()>* goes_on = nullptr;
  uint64_t events = 0;    // in all windows so far
  bool is_ended = false;  // nobody waits any more

  /// To be asked at each event.
  bool GoesOn() {
    ++events;
    const bool asks = events % kEventsPerQuestion == 0 && goes_on != nullptr && *goes_on;
    is_ended = is_ended || (asks && !(*goes_on)());
    return !is_ended;
  }
};

struct SpotCapacity::Run {
  double seconds = 0;
  double usd = 0;
  double revocations = 0;
  bool is_reached = false;
  std::vector<std::vector<int>> points;  // what works of each pool
};

SpotCapacity::SpotCapacity(
    const PlanProblem& problem,
    std::vector<SpotPool> pools,
    PoolTimes times,
    double limit_s,
    int windows_most)
    : problem_(problem), pools_(std::move(pools)), times_(std::move(times)), limit_s_(limit_s) {
  PS_CHECK(!pools_.empty() && times_.start_s.size() == problem_.offers.size());
  double end_s = kNever;
  for (const SpotPool& pool : pools_) {
    end_s = std::min(end_s, pool.end_s);
  }
  window_s_ = std::min({kFollowed * limit_s, (end_s + limit_s) / 2, end_s});
  const double room_s = end_s - window_s_;
  const int windows = room_s > 0 ? windows_most : 1;
  for (int i = 0; i < windows; ++i) {
    windows_.push_back({windows > 1 ? room_s * i / (windows - 1) : 0, {}});
  }
  for (const SpotPool& pool : pools_) {
    const std::vector<SpotMachine> all =
        provisioner::MachinesOf(pool.steps, pool.end_s, kVictimSeed);
    count_s_.push_back(CountSeconds(pool.steps, end_s));
    most_.push_back(static_cast<int>(count_s_.back().begin()->first));
    std::vector<SpotMachine> near;  // that could be had in a window
    size_t next = 0;
    for (Window& window : windows_) {
      for (; next < all.size() && all[next].begin_s < window.begin_s + window_s_; ++next) {
        near.push_back(all[next]);
      }
      std::erase_if(near, [&](const SpotMachine& one) { return one.end_s <= window.begin_s; });
      window.machines.push_back(Since(window.begin_s, near));
    }
  }
}

SpotCapacity::Fleet SpotCapacity::FleetOf(
    const FleetChoice& choice, std::optional<size_t> spare) const {
  const provisioner::ServerOffer& server =
      problem_.servers[static_cast<size_t>(choice.server_offer)];
  const double server_usd_per_s = server.usd_per_hour * choice.server_hosts / kHourSeconds;
  Fleet fleet = {
      .choice = choice,
      .spare = spare,
      .wanted = {},
      .usd_per_s = {},
      .usd_always_per_s = server_usd_per_s,
      .least = {{server_usd_per_s, server.billed_s_min}},
      .counts = std::vector<int>(problem_.speed->classes().size(), 0)};
  std::vector<bool> has_pool(choice.counts.size(), false);
  for (const SpotPool& pool : pools_) {
    int wanted = 0;
    size_t used = pool.offers.front();
    for (const size_t offer : pool.offers) {
      has_pool[offer] = true;
      wanted += choice.counts[offer];
      used = choice.counts[offer] > 0 ? offer : used;
    }
    fleet.wanted.push_back(wanted);
    fleet.usd_per_s.push_back(
        provisioner::TermsOf(problem_, choice, used).usd_per_hour / kHourSeconds);
  }
  if (spare) {
    fleet.spare_most = problem_.offers[pools_[*spare].offers.front()].quota;
  }
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    if (!has_pool[i] && choice.counts[i] > 0) {
      const provisioner::Offer& offer = problem_.offers[i];
      const double usd_per_s =
          choice.counts[i] * provisioner::TermsOf(problem_, choice, i).usd_per_hour / kHourSeconds;
      fleet.counts[static_cast<size_t>(offer.worker_class)] += choice.counts[i];
      fleet.usd_always_per_s += usd_per_s;
      fleet.least.push_back({usd_per_s, offer.billed_s_min});
    }
  }
  fleet.deviation = provisioner::TimeDeviation(
      problem_,
      provisioner::TraitsOf(choice.speed, provisioner::WorkersOf(choice.counts)),
      choice.server_hosts);
  return fleet;
}

double SpotCapacity::StepsPerSecond(const std::vector<int>& working, Fleet* fleet) const {
  const auto known = fleet->rates.find(working);
  if (known != fleet->rates.end()) {
    return known->second;
  }
  std::vector<int> counts = fleet->counts;
  const FleetChoice& choice = fleet->choice;
  for (size_t p = 0; p < pools_.size(); ++p) {
    int left = working[p];
    for (const size_t offer : pools_[p].offers) {
      const bool is_spare = p == fleet->spare;
      const int some = is_spare ? left : std::min(left, choice.counts[offer]);
      counts[static_cast<size_t>(problem_.offers[offer].worker_class)] += some;
      left -= some;
    }
  }
  const provisioner::ServerOffer& server =
      problem_.servers[static_cast<size_t>(choice.server_offer)];
  double rate = 0;
  if (provisioner::WorkersOf(counts) > 0) {
    rate =
        problem_.speed->Predict(counts, {choice.server_hosts, server.link_bytes_per_s}).steps_per_s;
  }
  if (!fleet->spare) {
    rate = std::min(rate, choice.speed.steps_per_s);
  }
  fleet->rates.emplace(working, rate);
  return rate;
}

double SpotCapacity::PointSeconds(const FleetChoice& choice) const {
  const bool has_time = std::isfinite(problem_.goal.seconds_max);
  return (has_time ? limit_s_ : std::min(limit_s_, choice.seconds)) / kPoints;
}

SpotCapacity::Run SpotCapacity::Follow(const Window& window, Fleet* fleet) const {
  const FleetChoice& choice = fleet->choice;
  std::vector<HeldPool> held;
  for (size_t p = 0; p < pools_.size(); ++p) {
    held.emplace_back(window.machines[p], problem_.offers[pools_[p].offers.front()].billed_s_min);
  }
  int wanted_of_all = 0;
  for (const int wanted : fleet->wanted) {
    wanted_of_all += wanted;
  }
  const double grid_s = PointSeconds(choice);
  Run run;
  double steps = 0;
  double blocked_s = 0;  // a seat that was lost is given away from here on
  std::vector<int> working(pools_.size(), 0);
  double now_s = 0;
  while (now_s < window_s_ && fleet->GoesOn()) {
    for (HeldPool& pool : held) {
      const HeldPool::Gone gone = pool.Pass(now_s);
      run.revocations += gone.working + gone.starting;
      steps = std::max(steps - gone.working * provisioner::MinibatchesLost(problem_), 0.0);
      if (gone.working + gone.starting > 0) {
        blocked_s = now_s + times_.detect_s;
      }
    }
    const auto fill = [&](size_t p, int wanted) {
      const double start_s = now_s == 0 ? choice.start_s : times_.start_s[pools_[p].offers.front()];
      held[p].Fill(wanted, now_s, std::max(now_s, blocked_s) + start_s);
    };
    int lacking = wanted_of_all;
    for (size_t p = 0; p < pools_.size(); ++p) {
      fill(p, fleet->wanted[p]);
      lacking -= fleet->wanted[p] > 0 ? held[p].held() : 0;
    }
    if (fleet->spare) {
      const int stand_in = std::min(lacking, fleet->spare_most);
      held[*fleet->spare].Shrink(stand_in, now_s);
      fill(*fleet->spare, stand_in);
    }
    double usd_per_s = fleet->usd_always_per_s;
    double next_s = now_s < choice.start_s ? std::min(choice.start_s, window_s_) : window_s_;
    for (size_t p = 0; p < pools_.size(); ++p) {
      working[p] = held[p].WorkingAt(now_s);
      usd_per_s += held[p].held() * fleet->usd_per_s[p];
      next_s = std::min(next_s, held[p].NextChange(now_s));
    }
    const double rate = now_s < choice.start_s ? 0 : StepsPerSecond(working, fleet);
    const double done_s = rate > 0 ? now_s + (choice.steps - steps) / rate : kNever;
    run.is_reached = done_s <= next_s;
    const double until_s = std::min(next_s, done_s);
    while (run.points.size() <= kPoints &&
           static_cast<double>(run.points.size()) * grid_s < until_s) {
      run.points.push_back(working);
    }
    run.usd += usd_per_s * (until_s - now_s);
    steps += rate * (until_s - now_s);
    now_s = until_s;
    if (run.is_reached) {
      break;
    }
  }
  run.seconds = now_s;
  run.usd += choice.traffic_usd * std::min(steps / choice.steps, 1.0);
  for (const LeastBill& one : fleet->least) {
    run.usd += one.usd_per_s * std::max(one.billed_s_min - now_s, 0.0);
  }
  for (size_t p = 0; p < pools_.size(); ++p) {
    run.usd += held[p].UnbilledUntil(now_s) * fleet->usd_per_s[p];
  }
  return run;
}

double SpotCapacity::InGoal(const Run& run, const Fleet& fleet) const {
  if (!run.is_reached) {
    return 0;
  }
  // A run that takes longer costs more in proportion; nothing is in doubt of the start.
  const provisioner::Goal& goal = problem_.goal;
  const double start_s = fleet.choice.start_s;
  const double in_budget_s = run.usd > 0 ? goal.usd_max * run.seconds / run.usd : kNever;
  const double longest_s = std::min(goal.seconds_max, in_budget_s);
  if (!std::isfinite(longest_s)) {
    return 1;
  }
  const double spread = std::log(std::max(longest_s - start_s, 0.0) / (run.seconds - start_s));
  return fleet.deviation > 0 ? provisioner::ErrorProbability(spread / fleet.deviation)
                             : (spread >= -kBoundSlack ? 1 : 0);
}

CapacityOutlook SpotCapacity::Expect(
    const FleetChoice& choice, std::optional<size_t> spare, const OutlookLimits& limits) const {
  Fleet fleet = FleetOf(choice, spare);
  fleet.goes_on = &limits.goes_on;
  const auto windows = static_cast<double>(windows_.size());
  CapacityOutlook outlook;
  std::vector<int> seen;  // by point, how many runs get that far
  double hope = windows;  // of in_goal, beside what is known
  for (const Window& window : windows_) {
    const Run run = Follow(window, &fleet);
    if (fleet.is_ended) {
      outlook.is_cut = true;
      return outlook;
    }
    outlook.usd += run.usd / windows;
    const double in_goal = InGoal(run, fleet);
    outlook.in_goal += in_goal / windows;
    hope -= 1;
    if (run.is_reached) {
      outlook.reached += 1;
      outlook.seconds += run.seconds;
      outlook.revocations += run.revocations;
    }
    for (size_t k = 0; k < run.points.size(); ++k) {
      if (k == outlook.points.size()) {
        outlook.points.push_back(
            {static_cast<double>(k) * PointSeconds(choice), std::vector<double>(pools_.size())});
        seen.push_back(0);
      }
      ++seen[k];
      for (size_t p = 0; p < pools_.size(); ++p) {
        outlook.points[k].working[p] += run.points[k][p];
      }
    }
    if (outlook.in_goal + hope / windows < limits.in_goal_least - kBoundSlack ||
        outlook.usd > limits.usd_most * (1 + kBoundSlack)) {
      outlook.is_cut = true;
      return outlook;
    }
  }
  for (size_t k = 0; k < outlook.points.size(); ++k) {
    for (double& working : outlook.points[k].working) {
      working /= seen[k];
    }
  }
  if (outlook.reached > 0) {
    outlook.seconds /= outlook.reached;
    outlook.revocations /= outlook.reached;
  }
  outlook.reached /= windows;
  return outlook;
}

double SpotCapacity::MachineSeconds(size_t pool, int wanted, double until_s) const {
  const std::vector<CapacityStep>& steps = pools_[pool].steps;
  const auto at_most = [&](const CapacityStep& step) {
    return std::min(static_cast<double>(step.nodes), static_cast<double>(wanted));
  };
  std::vector<double>& sums = machine_s_[{pool, wanted}];
  if (sums.empty()) {
    sums.push_back(0);
    for (size_t i = 1; i < steps.size(); ++i) {
      sums.push_back(sums.back() + at_most(steps[i - 1]) * (steps[i].at_s - steps[i - 1].at_s));
    }
  }
  const auto after = std::ranges::upper_bound(steps, until_s, {}, &CapacityStep::at_s);
  if (after == steps.begin()) {
    return 0;
  }
  const auto last = static_cast<size_t>(after - steps.begin()) - 1;
  return sums[last] + at_most(steps[last]) * (until_s - steps[last].at_s);
}

double SpotCapacity::UsdAtLeast(const FleetChoice& choice) const {
  const Fleet fleet = FleetOf(choice, {});
  const double seconds = std::min(choice.seconds, window_s_);
  double usd = 0;
  for (size_t p = 0; p < pools_.size(); ++p) {
    if (fleet.wanted[p] == 0) {
      continue;
    }
    double machine_s = 0;
    for (const Window& window : windows_) {
      machine_s += MachineSeconds(p, fleet.wanted[p], window.begin_s + seconds) -
                   MachineSeconds(p, fleet.wanted[p], window.begin_s);
    }
    usd += machine_s / static_cast<double>(windows_.size()) * fleet.usd_per_s[p];
  }
  return (usd + fleet.usd_always_per_s * seconds) * (1 - kBoundSlack);
}

double SpotCapacity::InGoalAtMost(const FleetChoice& choice) const {
  if (!std::isfinite(choice.seconds) || choice.seconds > window_s_ * (1 + kBoundSlack)) {
    return 0;
  }
  const Fleet fleet = FleetOf(choice, {});
  const Run soonest = {
      .seconds = choice.seconds, .usd = 0, .revocations = 0, .is_reached = true, .points = {}};
  return std::min(InGoal(soonest, fleet) + kBoundSlack, 1.0);
}

int SpotCapacity::CountWithin(size_t pool, double share) const {
  double all_s = 0;
  for (const auto& [count, seconds] : count_s_[pool]) {
    all_s += seconds;
  }
  double sum_s = 0;
  for (const auto& [count, seconds] : count_s_[pool]) {
    sum_s += seconds;
    if (sum_s >= share * all_s * (1 - kBoundSlack)) {
      return static_cast<int>(count);
    }
  }
  return 0;
}

}  // namespace ps::run
