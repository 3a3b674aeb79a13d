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

bool IsPositive(double value) {
  return std::isfinite(value) && value > 0;
}

/// A limit: positive, infinity for none.
bool IsLimit(double value) {
  return value > 0 && !std::isnan(value);
}

Status CheckGoal(const Goal& goal) {
  if (!IsPositive(goal.loss)) {
    return Status::InvalidArgument("the loss to reach has to be a positive number");
  }
  if (!IsLimit(goal.seconds_max)) {
    return Status::InvalidArgument("the time limit has to be positive");
  }
  if (!IsLimit(goal.usd_max)) {
    return Status::InvalidArgument("the budget has to be positive");
  }
  if (!IsLimit(goal.usd_per_hour_max)) {
    return Status::InvalidArgument("the limit of the price of an hour has to be positive");
  }
  if (!(goal.confidence > 0 && goal.confidence < 1)) {
    return Status::InvalidArgument("the confidence has to lie between 0 and 1");
  }
  if (!(std::isfinite(goal.takeover_s) && goal.takeover_s >= 0)) {
    return Status::InvalidArgument("the take-over time must not be negative");
  }
  return Status::Ok();
}

/// A fleet that need not be kept is one that could be.
Status CheckRuns(const PlanProblem& problem) {
  PS_CHECK(problem.runs.empty() || problem.runs.size() == problem.offers.size());
  for (size_t i = 0; i < problem.runs.size(); ++i) {
    const Offer& offer = problem.offers[i];
    PS_CHECK(offer.held == 0) << "kept, and not";
    if (problem.runs[i] < 0 || problem.runs[i] > offer.quota) {
      return Status::InvalidArgument(fmt::format(
          "{}: {} run, beyond its quota of {}",
          problem.speed->classes()[static_cast<size_t>(offer.worker_class)].name,
          problem.runs[i],
          offer.quota));
    }
  }
  return Status::Ok();
}

Status CheckOffers(const PlanProblem& problem) {
  const auto& classes = problem.speed->classes();
  std::vector<int> offers_of(classes.size(), 0);
  std::vector<bool> is_pooled(classes.size(), false);
  std::vector<int> held(problem.pools.size(), 0);
  for (const Offer& offer : problem.offers) {
    if (offer.worker_class < 0 || static_cast<size_t>(offer.worker_class) >= classes.size()) {
      return Status::InvalidArgument(
          "an offer is of a worker class that the speed model does not have");
    }
    const std::string& name = classes[static_cast<size_t>(offer.worker_class)].name;
    if (!(std::isfinite(offer.usd_per_hour) && offer.usd_per_hour >= 0)) {
      return Status::InvalidArgument(fmt::format("{}: the price must not be negative", name));
    }
    if (offer.quota < 0 || offer.held < 0) {
      return Status::InvalidArgument(
          fmt::format("{}: quota and held instances must not be negative", name));
    }
    if (!(std::isfinite(offer.start_up_s) && offer.start_up_s >= 0)) {
      return Status::InvalidArgument(fmt::format("{}: its start must not be negative", name));
    }
    for (const OfferPlace& place : offer.places) {
      PS_CHECK(place.zone < static_cast<int>(problem.zones.size())) << name;
      PS_CHECK(place.usd_per_hour >= offer.usd_per_hour) << name << " has a cheaper place";
    }
    if (offer.held > offer.quota) {
      return Status::InvalidArgument(
          fmt::format("{}: {} are held, beyond its quota of {}", name, offer.held, offer.quota));
    }
    const auto k = static_cast<size_t>(offer.worker_class);
    is_pooled[k] = is_pooled[k] || offer.pool >= 0;
    PS_CHECK(offer.pool < static_cast<int>(problem.pools.size())) << name;
    ++offers_of[k];
    PS_CHECK(offers_of[k] == 1 || !is_pooled[k]) << name << " has a pool and two offers";
  }
  for (const Offer& offer : problem.offers) {
    if (offer.pool >= 0) {
      const auto pool = static_cast<size_t>(offer.pool);
      held[pool] += offer.held;
      if (held[pool] > problem.pools[pool].quota) {
        return Status::InvalidArgument(fmt::format(
            "{}: {} are held, beyond its quota of {}",
            classes[static_cast<size_t>(offer.worker_class)].name,
            held[pool],
            problem.pools[pool].quota));
      }
    }
  }
  const int64_t workers = MostWorkers(problem);
  if (problem.offers.empty()) {
    return Status::InvalidArgument("nothing is on offer: no instance type can work on this job");
  }
  if (workers == 0) {
    return Status::InvalidArgument("the quota of every instance type is 0: raise one of them");
  }
  constexpr int64_t kWorkersMax = 100'000;
  if (workers > kWorkersMax) {
    return Status::InvalidArgument(fmt::format(
        "the quotas add up to {} workers; at most {} can be planned", workers, kWorkersMax));
  }
  return Status::Ok();
}

Status CheckServers(const PlanProblem& problem) {
  const std::vector<ServerOffer>& servers = problem.servers;
  if (servers.empty()) {
    return Status::InvalidArgument("no instance type may hold parameters: a plan needs a server");
  }
  for (const ServerOffer& server : servers) {
    if (server.hosts_min < 1 || server.hosts_max < server.hosts_min) {
      return Status::InvalidArgument(fmt::format(
          "{}: the number of servers has to be a range from 1 up", server.instance_type));
    }
    if (!IsPositive(server.link_bytes_per_s)) {
      return Status::InvalidArgument(
          fmt::format("{}: its network has no bandwidth", server.instance_type));
    }
    if (!(std::isfinite(server.usd_per_hour) && server.usd_per_hour >= 0)) {
      return Status::InvalidArgument(
          fmt::format("{}: the price must not be negative", server.instance_type));
    }
  }
  int held = 0;
  for (const Offer& offer : problem.offers) {
    held += offer.held;
  }
  int workers_max = 0;  // of servers that quotas leave room for
  bool has_room = false;
  for (size_t i = 0; i < servers.size(); ++i) {
    for (int hosts = servers[i].hosts_min; hosts <= servers[i].hosts_max; ++hosts) {
      const std::vector<int> room = RoomBeside(problem, static_cast<int>(i), hosts);
      if (std::ranges::any_of(room, [](int left) { return left < 0; }) ||
          !VcpuRoom(problem, static_cast<int>(i), hosts).IsEnough()) {
        break;
      }
      has_room = true;
      workers_max = std::max(workers_max, servers[i].memory.WorkersMax(hosts));
    }
  }
  if (!has_room) {
    return Status::InvalidArgument(fmt::format(
        "{}: the quota of a type that holds parameters and works is one, as is that of a family's "
        "vCPUs, and what is held leaves none of it for servers",
        servers.front().instance_type));
  }
  const int workers_min = std::max({held, problem.workers_min, 1});
  if (workers_max < workers_min) {
    return Status::InvalidArgument(fmt::format(
        "the servers on offer have memory for the gradients of {} workers, and {} are held or "
        "asked for: allow more servers, or types with more memory",
        workers_max,
        workers_min));
  }
  return Status::Ok();
}

}  // namespace

Status CheckProblem(const PlanProblem& problem) {
  PS_CHECK(problem.speed != nullptr && problem.loss != nullptr);
  if (problem.workers_max < std::max(problem.workers_min, 1)) {
    return Status::InvalidArgument("the most workers are fewer than the least");
  }
  if (problem.answers_max < 1) {
    return Status::InvalidArgument("at least one plan has to be asked for");
  }
  PS_TRY(CheckGoal(problem.goal));
  PS_TRY(CheckOffers(problem));
  PS_TRY(CheckRuns(problem));
  return CheckServers(problem);
}

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
      quantile_(NormalQuantile(problem.goal.confidence)),
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
  for (const Pool& pool : problem.pools) {
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
