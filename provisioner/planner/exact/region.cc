#include "provisioner/planner/exact/region.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "provisioner/planner/exact/least_sums.h"
#include "provisioner/planner/exact/ratio_search.h"
#include "provisioner/planner/exact/trait_bounds.h"
#include "provisioner/planner/numbers.h"
#include "provisioner/planner/vcpu_room.h"

namespace ps::provisioner {
namespace {

constexpr int kHeterogeneityRounds = 3;
// Ratio of the speeds within a region up to which they bound heterogeneity well.
constexpr double kTightEffect = 1.02;
// Share of a range of loads that is worth another look at the region without it.
constexpr double kWorthNarrowing = 0.1;
// The region is narrowed again when the speed needed has grown by this factor.
constexpr double kWorthNarrowingAgain = 1.002;

/// Most heterogeneity of n workers: all equal.
double MostHeterogeneity(int workers) {
  return std::sqrt((workers - 1.0) / workers);
}

Range SamplesOf(const std::vector<Slot>& slots) {
  Range range{kInfinity, 0};
  for (const Slot& slot : slots) {
    if (slot.high > 0) {
      range.low = std::min(range.low, slot.samples);
      range.high = std::max(range.high, slot.samples);
    }
  }
  return range;
}

/// Takes what the slots need at least from the pools, and says how many workers they take at most
/// beyond that. Below 0: the pools do not hold as many as are needed.
int SpareOf(const std::vector<Slot>& slots, std::vector<int>* pools) {
  int spare = 0;
  std::vector<int> asked(pools->size(), 0);
  for (const Slot& slot : slots) {
    if (slot.pool < 0) {
      spare += slot.high - slot.low;
      continue;
    }
    (*pools)[static_cast<size_t>(slot.pool)] -= slot.low;
    asked[static_cast<size_t>(slot.pool)] += slot.high - slot.low;
  }
  for (size_t i = 0; i < asked.size(); ++i) {
    if ((*pools)[i] < 0) {
      return -1;
    }
    spare += std::min(asked[i], (*pools)[i]);
  }
  return spare;
}

/// The box and the sum of a region's fleets, with price as cost and the least rate as weight.
/// False: it holds no fleet.
bool MakeRatio(
    const std::vector<Slot>& slots,
    const Region& region,
    const ServerChoice& server,
    RatioProblem* ratio) {
  ratio->total = region.workers;
  ratio->cost_fixed = server.usd_per_s;
  ratio->terms.reserve(slots.size());
  int low_sum = 0;
  for (const Slot& slot : slots) {
    ratio->terms.push_back(
        {slot.usd_per_s,
         slot.rate_max,
         slot.rate_min,
         slot.crowding,
         slot.low,
         slot.high,
         slot.pool});
    low_sum += slot.low;
  }
  ratio->pools = server.pools;
  const int spare = SpareOf(slots, &ratio->pools);
  return spare >= 0 && low_sum <= region.workers && low_sum + spare >= region.workers;
}

/// The largest ratio of a worker's highest to its lowest speed in the region.
double LoadEffect(const std::vector<Slot>& slots) {
  double effect = 1;
  for (const Slot& slot : slots) {
    if (slot.high > 0) {
      effect = std::max(effect, slot.rate_min > 0 ? slot.rate_max / slot.rate_min : kInfinity);
    }
  }
  return effect;
}

/// The ratio of `worse` to `better`; counts of steps may be 0 or infinite.
double Effect(double worse, double better) {
  return worse == kInfinity ? kInfinity : (worse + 1) / (better + 1);
}

/// Narrows the slots to the region's first class. False: none of its fleets exists.
bool NarrowToFirst(const Region& region, std::vector<Slot>* slots) {
  bool has_first = region.first_low != region.first_high;
  for (Slot& slot : *slots) {
    if (slot.rank < region.first_low) {
      if (slot.low > 0) {
        return false;
      }
      slot.high = 0;
    } else if (slot.rank == region.first_low && !has_first && slot.high > 0) {
      if (slot.is_ladder) {
        slot.low = std::max(slot.low, 1);  // the cheapest of its ladder comes first
      }
      has_first = true;
    }
  }
  return has_first;
}

}  // namespace

ExactBasis::ExactBasis(const PlanProblem& problem, const FleetJudge& judge)
    : problem_(problem), judge_(judge) {
  for (size_t i = 0; i < problem.servers.size(); ++i) {
    const ServerOffer& offer = problem.servers[i];
    for (int hosts = offer.hosts_min; hosts <= offer.hosts_max; ++hosts) {
      const int index = static_cast<int>(i);
      std::vector<int> room = RoomBeside(problem, index, hosts);
      const VcpuRoom vcpus(problem, index, hosts);
      if (std::ranges::any_of(room, [](int left) { return left < 0; }) || !vcpus.IsEnough()) {
        continue;  // what is held leaves none for so many hosts
      }
      for (const Offer& held : problem.offers) {
        if (held.pool >= 0) {
          room[static_cast<size_t>(held.pool)] += held.held;
        }
      }
      servers_.push_back(
          {index,
           hosts,
           judge.Side(index, hosts),
           offer.usd_per_hour * hosts / kSecondsPerHour,
           std::move(room),
           offer.memory.WorkersMax(hosts),
           vcpus.left()});
    }
  }
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    workers_min_ += problem.offers[i].held;
    runs_ = runs_ || RunningOf(problem, i) > 0;
  }
  workers_min_ = std::max({workers_min_, problem.workers_min, 1});
  workers_max_ = static_cast<int>(std::min<int64_t>(MostWorkers(problem), problem.workers_max));
  usd_per_s_max_ = problem.goal.usd_per_hour_max / kSecondsPerHour * (1 + 2 * kSlack);
}

double ExactBasis::RunSecondsMax(double start_s) const {
  return std::max((problem_.goal.seconds_max - start_s) / judge_.quantile_factor(), 0.0);
}

double ExactBasis::StartLeast(int server, const std::vector<Slot>& slots) const {
  const double takeover_s = problem_.goal.takeover_s;
  if (!problem_.goal.counts_start_up || runs_) {
    return takeover_s;  // a fleet that differs may still be of nothing but what runs
  }
  const int offer = servers_[static_cast<size_t>(server)].offer;
  double least_s = kInfinity;
  double needed_s = problem_.servers[static_cast<size_t>(offer)].start_up_s;
  for (const Slot& slot : slots) {
    least_s = slot.high > 0 ? std::min(least_s, slot.start_s) : least_s;
    needed_s = slot.low > 0 ? std::max(needed_s, slot.start_s) : needed_s;
  }
  return takeover_s + (least_s < kInfinity ? std::max(least_s, needed_s) : needed_s);
}

Range ExactBasis::LoadsOf(int server, int workers) const {
  return problem_.speed->Loads(workers, servers_[static_cast<size_t>(server)].side);
}

Frame ExactBasis::MakeFrame(int server, int workers, const Range& load) const {
  const SpeedBounds bounds =
      problem_.speed->BoundWithin(workers, servers_[static_cast<size_t>(server)].side, load);
  Frame frame;
  frame.load = load;
  frame.server = server;
  frame.workers = workers;
  frame.fleet_rate_max = bounds.fleet_steps_per_s;
  frame.late = bounds.late;
  frame.is_exact = bounds.is_exact;
  const auto& classes = problem_.speed->classes();
  const ServerChoice& side = servers_[static_cast<size_t>(server)];
  std::vector<int> room = side.pools;
  for (const Offer& offer : problem_.offers) {
    if (offer.pool >= 0) {
      room[static_cast<size_t>(offer.pool)] -= offer.held;
    }
  }
  std::vector<size_t> by_speed;
  for (size_t k = 0; k < classes.size(); ++k) {
    int quota = 0;
    for (const int index : judge_.ladders()[k]) {
      const Offer& offer = problem_.offers[static_cast<size_t>(index)];
      Slot slot;
      slot.offer = index;
      slot.worker_class = static_cast<int>(k);
      slot.usd_per_s = offer.usd_per_hour / kSecondsPerHour;
      slot.samples = classes[k].samples;
      slot.rate_max = bounds.steps_per_s[k];
      slot.rate_min = bounds.is_exact                  ? slot.rate_max
                      : bounds.steps_per_s_min.empty() ? 0
                                                       : bounds.steps_per_s_min[k];
      slot.start_s = offer.start_up_s;
      slot.usd_run_per_s = kInfinity;
      slot.usd_per_step = kInfinity;
      for (const PlacePrice& price : judge_.prices().Of(side.offer, static_cast<size_t>(index))) {
        slot.usd_run_per_s =
            std::min(slot.usd_run_per_s, price.usd_per_s + price.usd_per_step * slot.rate_min);
        slot.usd_per_step =
            std::min(slot.usd_per_step, price.usd_per_s / slot.rate_max + price.usd_per_step);
      }
      slot.is_ladder = judge_.IsLadder(side.offer, k);
      slot.vcpu_quota = offer.vcpu_quota;
      slot.vcpus = offer.vcpus;
      slot.crowding = bounds.crowding.empty() ? 0 : bounds.crowding[k];
      slot.low = offer.held;
      slot.high = offer.quota;
      slot.pool = offer.pool;
      if (offer.pool >= 0) {
        slot.high = std::min(slot.high, offer.held + room[static_cast<size_t>(offer.pool)]);
      }
      if (offer.vcpu_quota >= 0 && offer.vcpus > 0) {
        const int left = side.vcpus[static_cast<size_t>(offer.vcpu_quota)];
        slot.high = std::min(slot.high, offer.held + left / offer.vcpus);
      }
      quota += slot.high;
      frame.slots.push_back(slot);
    }
    if (quota > 0) {
      by_speed.push_back(k);
    }
  }
  std::sort(by_speed.begin(), by_speed.end(), [&](size_t a, size_t b) {
    const double speed_a = classes[a].samples * bounds.steps_per_s[a];
    const double speed_b = classes[b].samples * bounds.steps_per_s[b];
    return speed_a != speed_b ? speed_a > speed_b : a < b;
  });
  std::vector<int> ranks(classes.size(), static_cast<int>(by_speed.size()));
  for (size_t rank = 0; rank < by_speed.size(); ++rank) {
    ranks[by_speed[rank]] = static_cast<int>(rank);
  }
  frame.rank_count = static_cast<int>(by_speed.size());
  frame.rank_held = frame.rank_count - 1;
  for (Slot& slot : frame.slots) {
    slot.rank = ranks[static_cast<size_t>(slot.worker_class)];
    if (slot.low > 0) {
      frame.rank_held = std::min(frame.rank_held, slot.rank);
    }
  }
  return frame;
}

bool ExactBasis::WholeFrame(const Frame& frame, Region* region) const {
  region->server = frame.server;
  region->workers = frame.workers;
  region->load = frame.load;
  region->batch_mean = SamplesOf(frame.slots);
  region->first_high = frame.rank_held;
  double usd_per_step = kInfinity;
  double rate_max = 0;
  for (const Slot& slot : frame.slots) {
    if (slot.high > 0) {
      usd_per_step = std::min(usd_per_step, slot.usd_per_step);
      rate_max = std::max(rate_max, slot.rate_max);
    }
  }
  rate_max = std::min(rate_max * frame.workers, frame.fleet_rate_max);
  const double steps = problem_.loss->StepsAtLeast(
      problem_.goal.loss,
      {frame.workers, region->batch_mean, {0, MostHeterogeneity(frame.workers)}, frame.late});
  const double run_seconds_max = RunSecondsMax(StartLeast(frame.server, frame.slots));
  if (steps == kInfinity || steps > run_seconds_max * rate_max * (1 + kSlack)) {
    return false;
  }
  const ServerChoice& server = servers_[static_cast<size_t>(frame.server)];
  region->usd_bound = steps * (usd_per_step + server.usd_per_s / rate_max);
  return true;
}

bool ExactBasis::BoundSteps(const Region& region, const RatioProblem& ratio, Family* family) const {
  const int workers = region.workers;
  Relaxation& out = *family->relaxation;
  // The faster the fleet has to be, the smaller is the fastest worker's share, the higher is the
  // heterogeneity, and the smaller are batches: the more steps it takes, the faster it has to be.
  family->heterogeneity = {0, MostHeterogeneity(workers)};
  BatchBound batch(out.slots, ratio);
  HeterogeneityBound bound(out.slots, ratio, out.load_effect < kTightEffect);
  double speed_needed = 0;
  for (int i = 0; i < kHeterogeneityRounds; ++i) {
    if (speed_needed > bound.speed_max()) {
      return false;
    }
    family->heterogeneity.low =
        std::clamp(bound.LeastAt(speed_needed) * (1 - kSlack), 0.0, family->heterogeneity.high);
    out.steps_min = problem_.loss->StepsAtLeast(
        problem_.goal.loss, {workers, family->batch_mean, family->heterogeneity, family->late});
    out.rate_needed = out.steps_min / family->run_seconds_max * (1 - kSlack);
    if (out.steps_min == kInfinity || out.rate_needed > out.rate_max * (1 + kSlack)) {
      return false;
    }
    Range& range = family->batch_mean;
    range.high = batch.MostAt(out.rate_needed, range.high);
    if (range.high < range.low) {
      return false;
    }
    speed_needed = family->batch_mean.low * out.rate_needed * (1 - kSlack);
  }
  return true;
}

void ExactBasis::MeasureEffects(int workers, Family* family) const {
  const auto steps_at = [&](double b, double r) {
    return problem_.loss->StepsAtLeast(problem_.goal.loss, {workers, {b, b}, {r, r}, family->late});
  };
  Relaxation& out = *family->relaxation;
  const Range& batch = family->batch_mean;
  const Range& heterogeneity = family->heterogeneity;
  const double steps_low = steps_at(batch.low, heterogeneity.low);
  const double steps_high = steps_at(batch.high, heterogeneity.low);
  // A line that grows says too much of batches beyond the range, and as much of all within it.
  family->is_larger_better = out.line.slope == 0 && steps_high <= steps_low;
  const double worst =
      std::max(steps_low * out.line.At(batch.low), steps_high * out.line.At(batch.high));
  out.batch_effect = Effect(worst, out.steps_min);
  const double batch_best = family->is_larger_better ? batch.high : batch.low;
  const double spread_low = steps_at(batch_best, heterogeneity.low);
  const double spread_high = steps_at(batch_best, heterogeneity.high);
  out.first_effect = Effect(std::max(spread_low, spread_high), std::min(spread_low, spread_high));
}

bool ExactBasis::CountBestSteps(
    const Frame& frame, const Range& batch_mean, RatioProblem* ratio, Relaxation* out) const {
  out->line = problem_.loss->BatchLineOf(batch_mean);
  for (size_t i = 0; i < out->slots.size(); ++i) {
    Slot& slot = out->slots[i];
    ratio->terms[i].rate = slot.worth = slot.rate_max * out->line.At(slot.samples);
  }
  ratio->rate_max = frame.fleet_rate_max * out->line.At(batch_mean.high);
  out->worth_max = std::min(LargestSum(*ratio, &RatioTerm::rate), ratio->rate_max);
  return !(out->rate_needed > out->worth_max * (1 + kSlack));  // NaN where all is free
}

Relaxation ExactBasis::Relax(const Frame& frame, const Region& region, double usd_limit) const {
  Relaxation out;
  out.slots = frame.slots;
  RatioProblem ratio;
  Family family;
  family.relaxation = &out;
  family.late = frame.late;
  if (!NarrowToFirst(region, &out.slots) ||
      !MakeRatio(out.slots, region, servers_[static_cast<size_t>(region.server)], &ratio)) {
    return out;
  }
  // Workers that together ask for more than any fleet of this load gets are of a higher one.
  const double rate_least = SmallestSum(ratio, &RatioTerm::weight);
  if (rate_least > frame.fleet_rate_max * (1 + kSlack)) {
    return out;
  }
  Range& batch = family.batch_mean;
  batch = SamplesOf(out.slots);
  batch = {
      std::max(region.batch_mean.low, batch.low), std::min(region.batch_mean.high, batch.high)};
  if (batch.low > batch.high) {
    return out;
  }
  out.rate_max = std::min(LargestSum(ratio, &RatioTerm::rate), frame.fleet_rate_max);
  out.load_effect = rate_least > 0 ? LoadEffect(out.slots) : kInfinity;
  out.usd_per_s_min = ratio.cost_fixed + SmallestSum(ratio, &RatioTerm::cost);
  if (out.usd_per_s_min > usd_per_s_max_) {
    return out;
  }
  // A fleet that takes longer than this costs more than the limit, however cheap its second is.
  for (size_t i = 0; i < out.slots.size(); ++i) {
    ratio.terms[i].cost = out.slots[i].usd_run_per_s;
  }
  out.usd_run_per_s_min = ratio.cost_fixed + SmallestSum(ratio, &RatioTerm::cost);
  out.start_s = StartLeast(region.server, out.slots);
  const double seconds_worth =
      (usd_limit * (1 + kSlack) - out.start_s * out.usd_per_s_min) / out.usd_run_per_s_min;
  family.run_seconds_max = std::min(RunSecondsMax(out.start_s), std::max(seconds_worth, 0.0));
  if (!BoundSteps(region, ratio, &family)) {
    return out;
  }
  if (!region.is_relaxed && region.load.high > region.load.low &&
      out.rate_needed > region.rate_narrowed * kWorthNarrowingAgain) {
    out.load_least = problem_.speed->LoadAtLeast(
        region.workers, servers_[static_cast<size_t>(region.server)].side, out.rate_needed);
    if (out.load_least > region.load.high) {
      return out;
    }
    out.is_too_wide =
        out.load_least > std::lerp(region.load.low, region.load.high, kWorthNarrowing);
    if (out.is_too_wide) {
      return out;
    }
  }
  if (!CountBestSteps(frame, batch, &ratio, &out)) {
    return out;
  }
  MeasureEffects(region.workers, &family);
  out.heterogeneity = family.heterogeneity;
  out.batch_mean = batch;
  for (size_t i = 0; i < out.slots.size(); ++i) {
    const Slot& slot = out.slots[i];
    const double slack = kSlack * batch.high * slot.rate_max;
    double from_low = slot.samples * slot.rate_max - batch.low * slot.rate_min + slack;
    double from_high = batch.high * slot.rate_max - slot.samples * slot.rate_min + slack;
    if (!family.is_larger_better) {
      std::swap(from_low, from_high);
    }
    out.weights.push_back(from_low);
    out.other_weights.push_back(from_high);
    ratio.terms[i].weight = from_low;
  }
  if (LargestSum(ratio, &RatioTerm::weight) < 0) {
    return out;
  }
  out.is_void = false;
  if (region.is_relaxed) {
    out.usd_bound = region.usd_bound;
    out.multipliers = region.multipliers;
    return out;
  }
  ratio.rate_min = std::min(out.rate_needed, out.worth_max);
  const double usd_left = usd_limit - out.start_s * out.usd_per_s_min;
  RatioBound bound = BoundRatio(
      ratio,
      {region.multipliers.batch, region.multipliers.crowding},
      usd_left / out.steps_min * (1 + kSlack));
  out.usd_bound = out.steps_min * std::max(bound.ratio, 0.0) + out.start_s * out.usd_per_s_min;
  out.multipliers = {bound.rate_multiplier, bound.weight_multiplier, bound.crowding_multiplier};
  out.fleets = std::move(bound.corners);
  return out;
}

}  // namespace ps::provisioner
