#include "run/planning/spot_capacity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <utility>

#include "provisioner/model/prediction_interval.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/zone_prices.h"

namespace ps::run {
namespace {

using provisioner::CapacityStep;
using provisioner::FleetChoice;
using provisioner::PlanProblem;
using provisioner::SpotMachine;

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr double kSecondsPerHour = 3600;
constexpr uint64_t kSeed = 1;  // draws who goes when a count falls
constexpr int kPoints = 6;
// A run is followed for so many times the goal's time, or else the plan's.
constexpr double kFollowed = 2;

/// What is left of a pool's steps from `begin_s` on.
std::vector<CapacityStep> StepsFrom(const SpotPool& pool, double begin_s) {
  std::vector<CapacityStep> steps;
  for (const CapacityStep& step : pool.steps) {
    if (step.at_s <= begin_s) {
      steps = {{0, step.nodes}};
    } else {
      steps.push_back({step.at_s - begin_s, step.nodes});
    }
  }
  return steps;
}

/// The machines of one pool while a run goes on.
class HeldPool {
 public:
  HeldPool(const SpotPool& pool, double begin_s)
      : offer_(pool.offer),
        machines_(provisioner::MachinesOf(StepsFrom(pool, begin_s), pool.end_s - begin_s, kSeed)) {}

  size_t offer() const { return offer_; }

  int held() const { return static_cast<int>(held_.size()); }

  int WorkingAt(double now_s) const {
    return static_cast<int>(
        std::ranges::count_if(held_, [&](const Held& one) { return one.ready_s <= now_s; }));
  }

  /// Machines that are there and not held.
  double NextChange(double now_s) const {
    double next_s = begun_ < machines_.size() ? machines_[begun_].begin_s : kForever;
    for (const size_t machine : free_) {
      next_s = std::min(next_s, machines_[machine].end_s);
    }
    for (const Held& one : held_) {
      next_s = std::min(next_s, machines_[one.machine].end_s);
      next_s = one.ready_s > now_s ? std::min(next_s, one.ready_s) : next_s;
    }
    return next_s;
  }

  /// Lets those go that are gone by now, and finds those that have come. Returns how many of the
  /// held ones that worked went, and how many that had yet to start.
  std::pair<int, int> Pass(double now_s) {
    std::erase_if(free_, [&](size_t machine) { return machines_[machine].end_s <= now_s; });
    int worked = 0;
    int started = 0;
    std::erase_if(held_, [&](const Held& one) {
      const bool is_gone = machines_[one.machine].end_s <= now_s;
      worked += is_gone && one.ready_s < now_s ? 1 : 0;
      started += is_gone && one.ready_s >= now_s ? 1 : 0;
      return is_gone;
    });
    for (; begun_ < machines_.size() && machines_[begun_].begin_s <= now_s; ++begun_) {
      if (machines_[begun_].end_s > now_s) {
        free_.push_back(begun_);
      }
    }
    return {worked, started};
  }

  /// Takes what is free until so many are held.
  void Fill(int wanted, double ready_s) {
    while (held() < wanted && !free_.empty()) {
      held_.push_back({free_.front(), ready_s});
      free_.erase(free_.begin());
    }
  }

  /// Gives the newest back until so many are held.
  void Shrink(int wanted) {
    while (held() > std::max(wanted, 0)) {
      free_.push_back(held_.back().machine);
      held_.pop_back();
    }
  }

 private:
  struct Held {
    size_t machine = 0;
    double ready_s = 0;
  };

  size_t offer_;
  std::vector<SpotMachine> machines_;  // by begin
  size_t begun_ = 0;
  std::vector<size_t> free_;
  std::vector<Held> held_;
};

}  // namespace

SpotCapacity::SpotCapacity(const PlanProblem& problem, std::vector<SpotPool> pools, PoolTimes times)
    : problem_(problem), pools_(std::move(pools)), times_(times) {}

double SpotCapacity::StepsPerSecond(
    const FleetChoice& choice, const std::vector<int>& working) const {
  if (provisioner::WorkersOf(working) == 0) {
    return 0;
  }
  std::vector<int> counts(problem_.speed->classes().size(), 0);
  for (size_t i = 0; i < working.size(); ++i) {
    counts[static_cast<size_t>(problem_.offers[i].worker_class)] += working[i];
  }
  const provisioner::ServerOffer& server =
      problem_.servers[static_cast<size_t>(choice.server_offer)];
  return problem_.speed->Predict(counts, {choice.server_hosts, server.link_bytes_per_s})
      .steps_per_s;
}

SpotCapacity::Run SpotCapacity::RunFrom(
    const FleetChoice& choice,
    std::span<const SpotPool> pools,
    double begin_s,
    double grid_s) const {
  double end_s = kForever;
  std::vector<HeldPool> held;
  std::vector<bool> is_pool(choice.counts.size(), false);
  int wanted_of_pools = 0;
  for (size_t p = 0; p < pools.size(); ++p) {
    end_s = std::min(end_s, pools[p].end_s - begin_s);
    held.emplace_back(pools[p], begin_s);
    is_pool[pools[p].offer] = true;
    wanted_of_pools += p < pools_.size() ? choice.counts[pools[p].offer] : 0;
  }
  const provisioner::ServerOffer& server =
      problem_.servers[static_cast<size_t>(choice.server_offer)];
  Run run;
  double now_s = 0;
  double steps = 0;
  double blocked_s = 0;  // a seat that was lost is given away from here on
  std::map<std::vector<int>, double> speeds;
  while (now_s < end_s) {
    int held_of_pools = 0;
    for (size_t p = 0; p < held.size(); ++p) {
      const auto [worked, started] = held[p].Pass(now_s);
      run.revocations += worked + started;
      steps = std::max(steps - worked * provisioner::MinibatchesLost(problem_), 0.0);
      if (worked + started > 0) {
        blocked_s = now_s + times_.detect_s;
      }
      if (p < pools_.size()) {
        held[p].Fill(choice.counts[held[p].offer()], std::max(now_s, blocked_s) + times_.start_s);
        held_of_pools += held[p].held();
      } else {
        const int lacking =
            std::min(wanted_of_pools - held_of_pools, problem_.offers[held[p].offer()].quota);
        held[p].Shrink(lacking);
        held[p].Fill(lacking, std::max(now_s, blocked_s) + times_.start_s);
      }
    }
    std::vector<int> working(choice.counts.size(), 0);
    double usd_per_s = server.usd_per_hour * choice.server_hosts / kSecondsPerHour;
    double next_s = end_s;
    for (size_t i = 0; i < choice.counts.size(); ++i) {
      if (!is_pool[i]) {
        working[i] = now_s >= times_.start_s ? choice.counts[i] : 0;
        usd_per_s += choice.counts[i] * provisioner::TermsOf(problem_, choice, i).usd_per_hour /
                     kSecondsPerHour;
      }
    }
    if (now_s < times_.start_s) {
      next_s = std::min(next_s, times_.start_s);
    }
    for (const HeldPool& pool : held) {
      working[pool.offer()] += pool.WorkingAt(now_s);
      usd_per_s += pool.held() * provisioner::TermsOf(problem_, choice, pool.offer()).usd_per_hour /
                   kSecondsPerHour;
      next_s = std::min(next_s, pool.NextChange(now_s));
    }
    const auto [known, is_new] = speeds.try_emplace(working, 0);
    if (is_new) {
      known->second = StepsPerSecond(choice, working);
    }
    const double rate = known->second;
    const double done_s = rate > 0 ? now_s + (choice.steps - steps) / rate : kForever;
    const double until_s = std::min(next_s, done_s);
    while (run.points.size() <= kPoints &&
           static_cast<double>(run.points.size()) * grid_s < until_s) {
      run.points.push_back(
          {static_cast<double>(run.points.size()) * grid_s,
           std::vector<double>(working.begin(), working.end())});
    }
    run.usd += usd_per_s * (until_s - now_s);
    steps += rate * (until_s - now_s);
    now_s = until_s;
    if (done_s <= next_s) {
      run.is_reached = true;
      break;
    }
  }
  run.seconds = now_s;
  run.usd += choice.steps > 0 ? choice.traffic_usd * steps / choice.steps : 0;
  return run;
}

CapacityOutlook SpotCapacity::Expect(
    const FleetChoice& choice, double seconds_max, const SpotPool* spare) {
  std::vector<SpotPool> pools = pools_;
  if (spare != nullptr) {
    pools.push_back(*spare);
  }
  double end_s = kForever;
  for (const SpotPool& pool : pools) {
    end_s = std::min(end_s, pool.end_s);
  }
  const double limit_s = std::isfinite(seconds_max) ? seconds_max : choice.seconds;
  const double room_s = std::max(end_s - kFollowed * limit_s, 0.0);
  const double grid_s = limit_s / kPoints;
  const double deviation = provisioner::TimeDeviation(
      problem_,
      provisioner::TraitsOf(choice.speed, provisioner::WorkersOf(choice.counts)),
      choice.server_hosts);
  CapacityOutlook outlook;
  outlook.beginnings = room_s > 0 ? kBeginningsMax : 1;
  std::vector<int> seen;  // by point, how many runs get that far
  for (int i = 0; i < outlook.beginnings; ++i) {
    const double begin_s = outlook.beginnings > 1 ? room_s * i / (outlook.beginnings - 1) : 0;
    const Run run = RunFrom(choice, pools, begin_s, grid_s);
    if (run.is_reached) {
      outlook.reached += 1;
      outlook.seconds += run.seconds;
      outlook.usd += run.usd;
      outlook.revocations += run.revocations;
      // Nothing is in doubt of the start.
      const double spread =
          std::log(std::max(limit_s - choice.start_s, 0.0) / (run.seconds - choice.start_s));
      outlook.in_time +=
          !std::isfinite(seconds_max)
              ? 1
              : (deviation > 0 ? provisioner::ErrorProbability(spread / deviation) : spread >= 0);
    }
    for (size_t k = 0; k < run.points.size(); ++k) {
      if (k == outlook.points.size()) {
        outlook.points.push_back({run.points[k].at_s, std::vector<double>(choice.counts.size())});
        seen.push_back(0);
      }
      ++seen[k];
      for (size_t offer = 0; offer < choice.counts.size(); ++offer) {
        outlook.points[k].working[offer] += run.points[k].working[offer];
      }
    }
  }
  for (size_t k = 0; k < outlook.points.size(); ++k) {
    for (double& working : outlook.points[k].working) {
      working /= seen[k];
    }
  }
  if (outlook.reached > 0) {
    outlook.seconds /= outlook.reached;
    outlook.usd /= outlook.reached;
    outlook.revocations /= outlook.reached;
  }
  outlook.in_time /= outlook.beginnings;
  outlook.reached /= outlook.beginnings;
  return outlook;
}

}  // namespace ps::run
