#include "provisioner/planner/fleet_judge.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "provisioner/model/prediction_interval.h"
#include "provisioner/planner/numbers.h"
#include "provisioner/planner/vcpu_room.h"

namespace ps::provisioner {
namespace {

// Sums of prices in different orders differ by rounding: costs are compared to this many bits.
constexpr int kUsdBits = 40;

/// `usd` without its last bits.
double Rounded(double usd) {
  if (!std::isfinite(usd)) {
    return usd;
  }
  int exponent = 0;
  const double mantissa = std::frexp(usd, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, kUsdBits)), exponent - kUsdBits);
}

}  // namespace

double SpeedDeviation(const PlanProblem& problem, const FleetSize& size) {
  return SpeedResidualAt(problem.speed->residual(), size, problem.measured);
}

double TimeDeviation(const PlanProblem& problem, const FleetTraits& fleet, int server_hosts) {
  return CombinedResidual(
      CombinedResidual(SpeedDeviation(problem, {fleet.workers, server_hosts}), fleet.deviation),
      problem.loss->ResidualAt(problem.goal.loss, fleet));
}

FleetJudge::FleetJudge(const PlanProblem& problem)
    : problem_(problem),
      quantile_(ErrorQuantile(problem.goal.confidence)),
      quantile_factor_(std::exp(
          quantile_ * CombinedResidual(problem.speed->residual(), problem.loss->residual()))),
      ladders_(problem.speed->classes().size()),
      prices_(problem),
      class_counts_(problem.speed->classes().size()) {
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    ladders_[static_cast<size_t>(problem.offers[i].worker_class)].push_back(static_cast<int>(i));
  }
  for (auto& ladder : ladders_) {
    std::sort(ladder.begin(), ladder.end(), [&](int a, int b) {
      const double usd_a = problem.offers[static_cast<size_t>(a)].usd_per_hour;
      const double usd_b = problem.offers[static_cast<size_t>(b)].usd_per_hour;
      return usd_a != usd_b ? usd_a < usd_b : a < b;
    });
  }
  for (int server = 0; server < static_cast<int>(problem.servers.size()); ++server) {
    std::vector<bool>& are_ladders = is_ladder_.emplace_back();
    for (const std::vector<int>& ladder : ladders_) {
      bool is_ladder = true;
      for (size_t rung = 1; rung < ladder.size(); ++rung) {
        is_ladder =
            is_ladder &&
            prices_.IsNeverDearer(
                server, static_cast<size_t>(ladder[rung - 1]), static_cast<size_t>(ladder[rung]));
      }
      are_ladders.push_back(is_ladder);
    }
  }
}

ServerSide FleetJudge::Side(int server_offer, int hosts) const {
  return {hosts, problem_.servers[static_cast<size_t>(server_offer)].link_bytes_per_s};
}

double FleetJudge::UsdPerSecond(std::span<const int> counts, int server_offer, int hosts) const {
  double usd_per_hour = problem_.servers[static_cast<size_t>(server_offer)].usd_per_hour * hosts;
  for (size_t i = 0; i < counts.size(); ++i) {
    usd_per_hour += problem_.offers[i].usd_per_hour * counts[i];
  }
  return usd_per_hour / kSecondsPerHour;
}

double FleetJudge::Usd(
    std::span<const int> counts,
    int server_offer,
    double seconds,
    Verdict* verdict,
    std::vector<int>* places) {
  const ServerOffer& server = problem_.servers[static_cast<size_t>(server_offer)];
  const int hosts = verdict->server_hosts;
  double usd = seconds * UsdPerSecond(counts, server_offer, hosts);
  const auto add = [&](double usd_per_hour, double billed_s_min) {
    usd += usd_per_hour / kSecondsPerHour * std::max(billed_s_min - seconds, 0.0);
  };
  add(server.usd_per_hour * hosts, server.billed_s_min);
  for (size_t i = 0; i < counts.size(); ++i) {
    add(problem_.offers[i].usd_per_hour * counts[i], problem_.offers[i].billed_s_min);
  }
  verdict->traffic_usd = 0;
  if (!prices_.HasTraffic(server_offer) || !std::isfinite(seconds)) {
    return usd;
  }
  // Steps of one worker of each class: what the model says, and rounding apart they add up.
  std::fill(class_counts_.begin(), class_counts_.end(), 0);
  for (size_t i = 0; i < counts.size(); ++i) {
    class_counts_[static_cast<size_t>(problem_.offers[i].worker_class)] += counts[i];
  }
  const std::vector<double> step_s =
      problem_.speed->StepSeconds(class_counts_, Side(server_offer, hosts));
  double steps_per_s = 0;
  for (size_t k = 0; k < step_s.size(); ++k) {
    steps_per_s += class_counts_[k] / step_s[k];
  }
  const double steps = verdict->speed.steps_per_s * (seconds - verdict->start_s) / steps_per_s;
  if (places != nullptr) {
    places->assign(counts.size(), -1);
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) {
      continue;
    }
    const Offer& offer = problem_.offers[i];
    const double paid_s = std::max(seconds, offer.billed_s_min);
    const double made = steps / step_s[static_cast<size_t>(offer.worker_class)];
    const auto usd_of = [&](const PlacePrice& price) {
      return price.usd_per_s * paid_s + price.usd_per_step * made;
    };
    const std::span<const PlacePrice> all = prices_.Of(server_offer, i);
    const PlacePrice& best = *std::ranges::min_element(all, {}, usd_of);
    usd += counts[i] * (usd_of(best) - all.front().usd_per_s * paid_s);
    verdict->traffic_usd += counts[i] * best.usd_per_step * made;
    if (places != nullptr) {
      (*places)[i] = best.place;
    }
  }
  return usd;
}

double FleetJudge::StartSeconds(std::span<const int> counts, int server_offer) const {
  if (IsHeld(counts)) {
    return 0;
  }
  if (!problem_.goal.counts_start_up) {
    return problem_.goal.takeover_s;
  }
  double start_s = problem_.servers[static_cast<size_t>(server_offer)].start_up_s;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > RunningOf(problem_, i)) {
      start_s = std::max(start_s, problem_.offers[i].start_up_s);
    }
  }
  return problem_.goal.takeover_s + start_s;
}

double FleetJudge::start_most_s() const {
  double start_s = 0;
  if (problem_.goal.counts_start_up) {
    for (const Offer& offer : problem_.offers) {
      start_s = std::max(start_s, offer.start_up_s);
    }
    for (const ServerOffer& server : problem_.servers) {
      start_s = std::max(start_s, server.start_up_s);
    }
  }
  return problem_.goal.takeover_s + start_s;
}

bool FleetJudge::IsSizeAllowed(std::span<const int> counts) const {
  const int workers = WorkersOf(counts);
  return workers >= std::max(problem_.workers_min, 1) && workers <= problem_.workers_max;
}

bool FleetJudge::HasMemory(int workers, int server_offer, int hosts) const {
  const ServerOffer& server = problem_.servers[static_cast<size_t>(server_offer)];
  return workers <= server.memory.WorkersMax(hosts);
}

bool FleetJudge::Fits(std::span<const int> counts, int server_offer, int hosts) const {
  if (!HasMemory(WorkersOf(counts), server_offer, hosts)) {
    return false;
  }
  if (!problem_.vcpu_quotas.empty() && !VcpuRoom(problem_, server_offer, hosts).Fits(counts)) {
    return false;
  }
  if (problem_.pools.empty()) {
    return true;
  }
  std::vector<int> room = RoomBeside(problem_, server_offer, hosts);
  for (size_t i = 0; i < counts.size(); ++i) {
    const Offer& offer = problem_.offers[i];
    if (offer.pool >= 0 && (room[static_cast<size_t>(offer.pool)] -= counts[i] - offer.held) < 0) {
      return false;
    }
  }
  return std::ranges::all_of(room, [](int left) { return left >= 0; });
}

bool FleetJudge::IsHeld(std::span<const int> counts) const {
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != RunningOf(problem_, i)) {
      return false;
    }
  }
  return true;
}

Verdict FleetJudge::Judge(
    std::span<const int> counts, int server_offer, int hosts, std::vector<int>* places) {
  ++evaluated_;
  std::fill(class_counts_.begin(), class_counts_.end(), 0);
  int workers = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    class_counts_[static_cast<size_t>(problem_.offers[i].worker_class)] += counts[i];
    workers += counts[i];
  }
  Verdict verdict;
  verdict.workers = workers;
  verdict.server_hosts = hosts;
  verdict.speed = problem_.speed->Predict(class_counts_, Side(server_offer, hosts));
  verdict.steps = problem_.loss->StepsTo(problem_.goal.loss, TraitsOf(verdict.speed, workers));
  verdict.start_s = StartSeconds(counts, server_offer);
  verdict.seconds = verdict.steps / verdict.speed.steps_per_s + verdict.start_s;
  verdict.usd = Usd(counts, server_offer, verdict.seconds, &verdict, places);
  return verdict;
}

FleetChoice FleetJudge::Choose(std::span<const int> counts, int server_offer, int hosts) {
  FleetChoice choice;
  const Verdict verdict = Judge(counts, server_offer, hosts, &choice.places);
  choice.counts.assign(counts.begin(), counts.end());
  choice.server_offer = server_offer;
  choice.server_hosts = hosts;
  choice.speed = verdict.speed;
  choice.steps = verdict.steps;
  choice.seconds = verdict.seconds;
  choice.usd = verdict.usd;
  choice.start_s = verdict.start_s;
  choice.traffic_usd = verdict.traffic_usd;
  return choice;
}

double FleetJudge::QuantileFactor(const FleetTraits& fleet, int server_hosts) const {
  const double deviation = TimeDeviation(problem_, fleet, server_hosts);
  // Below a confidence of one half more doubt would make a goal easier.
  return std::max(std::exp(quantile_ * deviation), quantile_factor_);
}

double FleetJudge::SecondsAtConfidence(
    const FleetTraits& fleet, int server_hosts, double seconds, double start_s) const {
  return (seconds - start_s) * QuantileFactor(fleet, server_hosts) + start_s;
}

bool FleetJudge::MeetsGoal(const Verdict& verdict) const {
  if (!std::isfinite(verdict.seconds)) {
    return false;
  }
  const double usd_max = verdict.seconds * problem_.goal.usd_per_hour_max / kSecondsPerHour;
  if (verdict.usd > usd_max * (1 + kSlack)) {
    return false;  // an hour of it costs too much
  }
  const double seconds = SecondsAtConfidence(
      TraitsOf(verdict.speed, verdict.workers),
      verdict.server_hosts,
      verdict.seconds,
      verdict.start_s);
  const double scale = verdict.seconds > 0 ? seconds / verdict.seconds : 1;
  return seconds <= problem_.goal.seconds_max && verdict.usd * scale <= problem_.goal.usd_max;
}

bool FleetJudge::ClimbsLadders(std::span<const int> counts, int server_offer) const {
  for (size_t k = 0; k < ladders_.size(); ++k) {
    bool is_exhausted = true;
    if (!IsLadder(server_offer, k)) {
      continue;
    }
    for (const int index : ladders_[k]) {
      const auto i = static_cast<size_t>(index);
      if (!is_exhausted && counts[i] > problem_.offers[i].held) {
        return false;
      }
      is_exhausted = is_exhausted && counts[i] == problem_.offers[i].quota;
    }
  }
  return true;
}

int WorkersOf(std::span<const int> counts) {
  return std::accumulate(counts.begin(), counts.end(), 0);
}

int RunningOf(const PlanProblem& problem, size_t offer) {
  return problem.runs.empty() ? problem.offers[offer].held : problem.runs[offer];
}

std::vector<int> RoomBeside(const PlanProblem& problem, int server_offer, int hosts) {
  std::vector<int> room;
  for (const QuotaPool& pool : problem.pools) {
    room.push_back(pool.quota);
  }
  for (const Offer& offer : problem.offers) {
    if (offer.pool >= 0) {
      room[static_cast<size_t>(offer.pool)] -= offer.held;
    }
  }
  const int pool = problem.servers[static_cast<size_t>(server_offer)].pool;
  if (pool >= 0) {
    room[static_cast<size_t>(pool)] -= hosts;
  }
  return room;
}

int64_t MostWorkers(const PlanProblem& problem) {
  int64_t workers = 0;
  std::vector<int64_t> pooled(problem.pools.size(), 0);
  for (const Offer& offer : problem.offers) {
    (offer.pool >= 0 ? pooled[static_cast<size_t>(offer.pool)] : workers) += offer.quota;
  }
  for (size_t i = 0; i < pooled.size(); ++i) {
    workers += std::min<int64_t>(pooled[i], problem.pools[i].quota);
  }
  return workers;
}

bool IsBetter(const FleetChoice& a, const FleetChoice& b) {
  const double usd_a = Rounded(a.usd);
  const double usd_b = Rounded(b.usd);
  if (usd_a != usd_b) {
    return usd_a < usd_b;
  }
  const int workers_a = WorkersOf(a.counts);
  const int workers_b = WorkersOf(b.counts);
  if (workers_a != workers_b) {
    return workers_a < workers_b;
  }
  if (a.counts != b.counts) {
    return a.counts > b.counts;
  }
  if (a.server_offer != b.server_offer) {
    return a.server_offer < b.server_offer;
  }
  return a.server_hosts < b.server_hosts;
}

void BestFleets::Add(FleetChoice choice) {
  const auto at = std::lower_bound(fleets_.begin(), fleets_.end(), choice, IsBetter);
  if (at != fleets_.end() && !IsBetter(choice, *at)) {
    return;  // it is in already
  }
  fleets_.insert(at, std::move(choice));
  if (fleets_.size() > most_) {
    fleets_.pop_back();
  }
}

double BestFleets::usd_limit() const {
  return is_full() ? fleets_.back().usd : std::numeric_limits<double>::infinity();
}

int BestFleets::last_workers() const {
  return is_full() ? WorkersOf(fleets_.back().counts) : std::numeric_limits<int>::max();
}

}  // namespace ps::provisioner
