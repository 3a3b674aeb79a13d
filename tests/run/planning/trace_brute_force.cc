#include "tests/run/planning/trace_brute_force.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "provisioner/model/prediction_interval.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/zone_prices.h"
#include "provisioner/simulator/simulation_input.h"
#include "tests/provisioner/planner/planning_samples.h"

namespace ps::run {
namespace {

constexpr double kEver = std::numeric_limits<double>::infinity();

struct Machine {
  size_t pool = 0;
  double begin_s = 0;  // of the window
  double end_s = 0;
  bool is_held = false;
  double since_s = 0;
  double ready_s = 0;
};

struct OneRun {
  bool is_reached = false;
  double seconds = 0;
  double usd = 0;
  double revocations = 0;
};

int WantedOf(const SpotPool& pool, const std::vector<int>& counts) {
  int wanted = 0;
  for (const size_t offer : pool.offers) {
    wanted += counts[offer];
  }
  return wanted;
}

/// Steps/s of what works, of each pool its first offers first.
double RateOf(
    const BruteTraces& traces,
    const provisioner::FleetChoice& choice,
    const std::vector<Machine>& machines,
    double now_s) {
  if (now_s < choice.start_s) {
    return 0;
  }
  std::vector<int> by_offer = choice.counts;
  for (size_t p = 0; p < traces.pools.size(); ++p) {
    auto working = std::ranges::count_if(machines, [&](const Machine& one) {
      return one.pool == p && one.is_held && one.ready_s <= now_s;
    });
    for (const size_t offer : traces.pools[p].offers) {
      by_offer[offer] = std::min(by_offer[offer], static_cast<int>(working));
      working -= by_offer[offer];
    }
  }
  std::vector<int> by_class(traces.problem.speed->classes().size(), 0);
  for (size_t i = 0; i < by_offer.size(); ++i) {
    by_class[static_cast<size_t>(traces.problem.offers[i].worker_class)] += by_offer[i];
  }
  if (std::accumulate(by_class.begin(), by_class.end(), 0) == 0) {
    return 0;
  }
  const double link =
      traces.problem.servers[static_cast<size_t>(choice.server_offer)].link_bytes_per_s;
  const double rate =
      traces.problem.speed->Predict(by_class, {choice.server_hosts, link}).steps_per_s;
  return std::min(rate, choice.speed.steps_per_s);
}

/// The price of a second of one machine of a pool, where the fleet has it.
double PriceOf(
    const BruteTraces& traces, const provisioner::FleetChoice& choice, const SpotPool& pool) {
  size_t offer = pool.offers.front();
  for (const size_t other : pool.offers) {
    offer = choice.counts[other] > 0 ? other : offer;
  }
  return provisioner::TermsOf(traces.problem, choice, offer).usd_per_hour / 3600;
}

class BruteRun {
 public:
  BruteRun(
      const BruteTraces& traces,
      const provisioner::FleetChoice& choice,
      double begin_s,
      double window_s)
      : traces_(traces), choice_(choice), window_s_(window_s) {
    for (size_t p = 0; p < traces.pools.size(); ++p) {
      const SpotPool& pool = traces.pools[p];
      for (const auto& one : provisioner::MachinesOf(pool.steps, pool.end_s, 1)) {
        if (one.end_s > begin_s && one.begin_s < begin_s + window_s) {
          machines_.push_back({p, std::max(one.begin_s - begin_s, 0.0), one.end_s - begin_s});
        }
      }
    }
  }

  OneRun Go() {
    double now_s = 0;
    while (now_s < window_s_ && !run_.is_reached) {
      Lose(now_s);
      Take(now_s);
      const double rate = RateOf(traces_, choice_, machines_, now_s);
      const double next_s = NextAfter(now_s);
      const double left_s = rate > 0 ? (choice_.steps - steps_) / rate : kEver;
      run_.is_reached = now_s + left_s <= next_s;
      const double passes_s = run_.is_reached ? left_s : next_s - now_s;
      steps_ += rate * passes_s;
      for (const Machine& one : machines_) {
        const double usd_per_s = PriceOf(traces_, choice_, traces_.pools[one.pool]);
        run_.usd += one.is_held ? usd_per_s * passes_s : 0;
      }
      now_s += passes_s;
    }
    run_.seconds = now_s;
    for (Machine& one : machines_) {
      PayLeast(one, now_s);
    }
    PayOthers(now_s);
    run_.usd += choice_.traffic_usd * std::min(steps_ / choice_.steps, 1.0);
    return run_;
  }

 private:
  void Lose(double now_s) {
    for (Machine& one : machines_) {
      if (one.is_held && one.end_s <= now_s) {
        PayLeast(one, now_s);
        one.is_held = false;
        run_.revocations += 1;
        blocked_s_ = now_s + traces_.times.detect_s;
        if (one.ready_s < now_s) {
          const int local = traces_.problem.local_steps;
          steps_ = std::max(steps_ - (local > 2 ? local / 2.0 : 1.0), 0.0);
        }
      }
    }
  }

  void Take(double now_s) {
    for (size_t p = 0; p < traces_.pools.size(); ++p) {
      int lacking = WantedOf(traces_.pools[p], choice_.counts);
      for (const Machine& one : machines_) {
        lacking -= one.pool == p && one.is_held ? 1 : 0;
      }
      for (Machine& one : machines_) {
        if (one.pool == p && !one.is_held && lacking > 0 && one.begin_s <= now_s &&
            one.end_s > now_s) {
          const double start_s =
              now_s == 0 ? choice_.start_s : traces_.times.start_s[traces_.pools[p].offers.front()];
          one.is_held = true;
          one.since_s = now_s;
          one.ready_s = std::max(now_s, blocked_s_) + start_s;
          --lacking;
        }
      }
    }
  }

  double NextAfter(double now_s) const {
    double next_s = window_s_;
    const auto may_be = [&](double at_s) {
      next_s = at_s > now_s ? std::min(next_s, at_s) : next_s;
    };
    may_be(choice_.start_s);
    for (const Machine& one : machines_) {
      may_be(one.begin_s);
      may_be(one.end_s);
      if (one.is_held) {
        may_be(one.ready_s);
      }
    }
    return next_s;
  }

  /// What a held machine costs more than its time.
  void PayLeast(const Machine& one, double now_s) {
    const SpotPool& pool = traces_.pools[one.pool];
    const double least_s = traces_.problem.offers[pool.offers.front()].billed_s_min;
    if (one.is_held && now_s - one.since_s < least_s) {
      run_.usd += PriceOf(traces_, choice_, pool) * (least_s - (now_s - one.since_s));
    }
  }

  /// Servers, and offers that are always there.
  void PayOthers(double now_s) {
    std::set<size_t> traced;
    for (const SpotPool& pool : traces_.pools) {
      traced.insert(pool.offers.begin(), pool.offers.end());
    }
    const auto pay = [&](double usd_per_hour, int count, double billed_s_min) {
      run_.usd += usd_per_hour / 3600 * count * std::max(now_s, billed_s_min);
    };
    const auto& server = traces_.problem.servers[static_cast<size_t>(choice_.server_offer)];
    pay(server.usd_per_hour, choice_.server_hosts, server.billed_s_min);
    for (size_t i = 0; i < choice_.counts.size(); ++i) {
      if (!traced.contains(i)) {
        pay(provisioner::TermsOf(traces_.problem, choice_, i).usd_per_hour,
            choice_.counts[i],
            traces_.problem.offers[i].billed_s_min);
      }
    }
  }

  const BruteTraces& traces_;
  const provisioner::FleetChoice& choice_;
  const double window_s_;
  std::vector<Machine> machines_;
  double steps_ = 0;
  double blocked_s_ = 0;
  OneRun run_;
};

double ChanceOf(
    const BruteTraces& traces, const provisioner::FleetChoice& choice, const OneRun& run) {
  if (!run.is_reached) {
    return 0;
  }
  const provisioner::PlanProblem& problem = traces.problem;
  const int workers = provisioner::WorkersOf(choice.counts);
  const double deviation = provisioner::TimeDeviation(
      problem, provisioner::TraitsOf(choice.speed, workers), choice.server_hosts);
  // All of it but the start takes `factor` times as long, and costs in proportion to the whole.
  const double trained_s = run.seconds - choice.start_s;
  const double by_time = (problem.goal.seconds_max - choice.start_s) / trained_s;
  const double by_usd = (problem.goal.usd_max / run.usd * run.seconds - choice.start_s) / trained_s;
  const double factor = std::min(by_time, by_usd);
  if (factor <= 0) {
    return deviation > 0 ? provisioner::ErrorProbability(-kEver) : 0;
  }
  if (std::isinf(factor)) {
    return 1;
  }
  return deviation > 0 ? provisioner::ErrorProbability(std::log(factor) / deviation)
                       : (factor >= 1 - 1e-9 ? 1 : 0);
}

}  // namespace

BruteOutlook FollowBrutally(const BruteTraces& traces, const provisioner::FleetChoice& choice) {
  double end_s = kEver;
  for (const SpotPool& pool : traces.pools) {
    end_s = std::min(end_s, pool.end_s);
  }
  const double window_s = std::min({2 * traces.limit_s, (end_s + traces.limit_s) / 2, end_s});
  const int windows = end_s > window_s ? traces.windows : 1;
  BruteOutlook sum = {.choice = choice};
  for (int i = 0; i < windows; ++i) {
    const double begin_s = windows > 1 ? (end_s - window_s) * i / (windows - 1) : 0;
    const OneRun run = BruteRun(traces, choice, begin_s, window_s).Go();
    sum.in_goal += ChanceOf(traces, choice, run) / windows;
    sum.usd += run.usd / windows;
    if (run.is_reached) {
      sum.reached += 1;
      sum.seconds += run.seconds;
      sum.revocations += run.revocations;
    }
  }
  if (sum.reached > 0) {
    sum.seconds /= sum.reached;
    sum.revocations /= sum.reached;
  }
  sum.reached /= windows;
  return sum;
}

std::vector<BruteOutlook> AllBrutally(const BruteTraces& traces) {
  std::vector<BruteOutlook> all;
  provisioner::FleetJudge judge(traces.problem);
  double end_s = kEver;
  for (const SpotPool& pool : traces.pools) {
    end_s = std::min(end_s, pool.end_s);
  }
  const auto is_had = [&](const std::vector<int>& counts) {
    for (const SpotPool& pool : traces.pools) {
      int most = 0;
      int running = 0;
      for (size_t k = 0; k < pool.steps.size() && pool.steps[k].at_s < end_s; ++k) {
        most = std::max(most, static_cast<int>(pool.steps[k].nodes));
      }
      for (const size_t offer : pool.offers) {
        const int runs = provisioner::RunningOf(traces.problem, offer);
        running += runs;
        if (counts[offer] > std::max(most, runs)) {
          return false;
        }
      }
      if (WantedOf(pool, counts) > std::max(most, running)) {
        return false;
      }
    }
    return std::ranges::all_of(traces.zoned, [&](const ZonedType& type) {
      int sum = 0;
      for (const size_t offer : type.offers) {
        sum += counts[offer];
      }
      return sum <= type.quota;
    });
  };
  provisioner::ForEachFleet(
      traces.problem, judge, [&](const std::vector<int>& counts, int server, int hosts) {
        if (!is_had(counts)) {
          return;
        }
        const provisioner::FleetChoice choice = judge.Choose(counts, server, hosts);
        if (std::isfinite(choice.seconds) && choice.steps > 0) {
          all.push_back(FollowBrutally(traces, choice));
        }
      });
  return all;
}

}  // namespace ps::run
