#include "provisioner/planner/exact/dive.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "provisioner/model/step_time.h"
#include "provisioner/planner/numbers.h"
#include "provisioner/profile/statistics.h"

namespace ps::provisioner {
namespace {

constexpr uint64_t kNodesPerQuestion = 4096;

}  // namespace

void ExactDive::Sums::Add(const Level& level, int count, size_t limited_count) {
  const Slot& slot = level.slot;
  const double speed = slot.rate_max * slot.samples;
  for (size_t i = 0; i < limited_count; ++i) {
    values[i] += count * level.values[i];
  }
  rate += count * slot.rate_max;
  rate_min += count * slot.rate_min;
  usd_per_s += count * slot.usd_per_s;
  usd_run_per_s += count * slot.usd_run_per_s;
  samples_per_s += count * speed;
  samples_per_s_min += count * slot.rate_min * slot.samples;
  square_sum += count * speed * speed;
  fastest = count > 0 ? std::max(fastest, speed) : fastest;
}

void ExactDive::Prepare(const Relaxation& relaxation) {
  const Multipliers& multipliers = relaxation.multipliers;
  levels_.clear();
  const size_t classes = basis_.problem().speed->classes().size();
  class_keys_.assign(classes, kInfinity);
  for (size_t i = 0; i < relaxation.slots.size(); ++i) {
    const Slot& slot = relaxation.slots[i];
    if (slot.high == 0) {
      continue;
    }
    Level level;
    level.slot = slot;
    level.position = static_cast<int>(i);
    const double key = slot.usd_run_per_s - multipliers.rate * slot.worth -
                       multipliers.batch * relaxation.weights[i] +
                       multipliers.crowding * slot.crowding;
    level.values = {
        key,
        -slot.worth,
        slot.rate_min,
        slot.crowding,
        -relaxation.weights[i],
        -relaxation.other_weights[i],
        slot.usd_per_s};
    double& class_key = class_keys_[static_cast<size_t>(slot.worker_class)];
    class_key = std::min(class_key, key);
    levels_.push_back(level);
  }
  // The offer that the relaxation uses least comes first: its count is soon limited.
  std::sort(levels_.begin(), levels_.end(), [&](const Level& a, const Level& b) {
    const double key_a = class_keys_[static_cast<size_t>(a.slot.worker_class)];
    const double key_b = class_keys_[static_cast<size_t>(b.slot.worker_class)];
    if (key_a != key_b) {
      return key_a > key_b;
    }
    return a.slot.worker_class != b.slot.worker_class ? a.slot.worker_class < b.slot.worker_class
                                                      : a.position < b.position;
  });
  for (size_t i = 1; i < levels_.size(); ++i) {
    const bool is_same = levels_[i].slot.is_ladder &&
                         levels_[i - 1].slot.worker_class == levels_[i].slot.worker_class;
    levels_[i].previous = is_same ? static_cast<int>(i) - 1 : -1;
  }
  for (size_t i = levels_.size(); i-- > 1;) {
    levels_[i - 1].low_after = levels_[i].low_after + levels_[i].slot.low;
    levels_[i - 1].high_after = levels_[i].high_after + levels_[i].slot.high;
  }
}

void ExactDive::KeepBinding() {
  limited_count_ = 0;
  for (size_t k = 0; k < kLimitedCount; ++k) {
    fill_slots_.clear();
    for (const Level& level : levels_) {
      fill_slots_.push_back({level.values[k], level.slot.low, level.slot.high, level.slot.pool});
    }
    // The limit of the Lagrangian falls as better fleets are found.
    const double limit = k == kKey ? -kInfinity : limits_[k];
    if (!tables_[limited_count_].Build(fill_slots_, pools_, region_->workers, limit)) {
      continue;
    }
    limits_[limited_count_] = limits_[k];
    for (Level& level : levels_) {
      level.values[limited_count_] = level.values[k];
    }
    ++limited_count_;
  }
}

void ExactDive::UpdateLimit() {
  const Goal& goal = basis_.problem().goal;
  const double budget = std::max(goal.usd_max, goal.usd_max / judge_.quantile_factor());
  usd_limit_ = std::min(best_.usd_limit(), budget) * (1 + kSlack);
  const double usd_left = usd_limit_ - relaxation_->start_s * relaxation_->usd_per_s_min;
  const double ratio = usd_left / relaxation_->steps_min;  // USD/s per step/s that still competes
  if (!std::isfinite(ratio)) {
    limits_[kKey] = kInfinity;
    return;
  }
  const double k = relaxation_->multipliers.rate;
  const double rate = k >= ratio ? relaxation_->rate_needed : relaxation_->worth_max;
  const double servers_usd_per_s = basis_.servers()[static_cast<size_t>(region_->server)].usd_per_s;
  limits_[kKey] = (ratio - k) * rate - servers_usd_per_s + kSlack * relaxation_->usd_run_per_s_min;
}

bool ExactDive::Run(
    const Frame& frame, const Region& region, const Relaxation& relaxation, uint64_t nodes_max) {
  frame_ = &frame;
  region_ = &region;
  relaxation_ = &relaxation;
  nodes_left_ = nodes_max;
  Prepare(relaxation);
  counts_.assign(basis_.problem().offers.size(), 0);
  const ServerChoice& server = basis_.servers()[static_cast<size_t>(region.server)];
  limits_ = {
      0,
      -relaxation.rate_needed * (1 - kSlack),
      frame.fleet_rate_max * (1 + kSlack),
      0,
      0,
      0,
      basis_.usd_per_s_max() - server.usd_per_s};
  UpdateLimit();
  pools_ = server.pools;
  for (const Level& level : levels_) {
    if (level.slot.pool >= 0) {
      pools_[static_cast<size_t>(level.slot.pool)] -= level.slot.low;
    }
  }
  vcpus_ = server.vcpus;
  for (const Level& level : levels_) {
    if (level.slot.vcpu_quota >= 0) {
      const Offer& offer = basis_.problem().offers[static_cast<size_t>(level.slot.offer)];
      vcpus_[static_cast<size_t>(level.slot.vcpu_quota)] -=
          (level.slot.low - offer.held) * level.slot.vcpus;
    }
  }
  if (std::ranges::any_of(vcpus_, [](int left) { return left < 0; })) {
    return true;  // what the region needs at least is too much
  }
  KeepBinding();
  return Descend(0, region.workers, {});
}

bool ExactDive::Descend(size_t depth, int left, const Sums& sums) {
  if (depth == levels_.size()) {
    Leaf(sums);
    return true;
  }
  const Level& level = levels_[depth];
  const Slot& slot = level.slot;
  int high = std::min(slot.high, left - level.low_after);
  int no_pool = std::numeric_limits<int>::max();
  int& pool = slot.pool < 0 ? no_pool : pools_[static_cast<size_t>(slot.pool)];
  high = std::min(high, slot.high - slot.low <= pool ? slot.high : slot.low + pool);
  int no_quota = 0;
  int& vcpus = slot.vcpu_quota < 0 ? no_quota : vcpus_[static_cast<size_t>(slot.vcpu_quota)];
  const int vcpus_each = slot.vcpu_quota < 0 ? 0 : slot.vcpus;
  if (vcpus_each > 0) {
    high = std::min(high, slot.low + vcpus / vcpus_each);
  }
  if (level.previous >= 0) {
    const Slot& previous = levels_[static_cast<size_t>(level.previous)].slot;
    if (counts_[static_cast<size_t>(previous.offer)] < previous.high) {
      high = std::min(high, slot.low);
    }
  }
  int count = std::max(slot.low, left - level.high_after);
  std::array<const FillTable::Piece*, kLimitedCount> pieces{};
  int& chosen = counts_[static_cast<size_t>(slot.offer)];
  while (count <= high) {
    if (nodes_left_ == 0) {
      chosen = 0;
      return false;
    }
    --nodes_left_;
    ++nodes_;
    if (nodes_ % kNodesPerQuestion == 0 && !goes_on_()) {
      nodes_left_ = 0;
    }
    const int spare = left - count - level.low_after;
    int skipped = 0;
    for (size_t k = 0; k < limited_count_ && skipped == 0; ++k) {
      pieces[k] = pieces[k] == nullptr ? tables_[k].Find(depth + 1, spare)
                                       : FillTable::Back(pieces[k], spare);
      const double excess =
          sums.values[k] + count * level.values[k] + FillTable::Sum(pieces[k], spare) - limits_[k];
      if (excess > 0) {
        // One more here, one less of what comes after; from there on it falls no faster.
        const double fall = FillTable::Last(pieces[k], spare) - level.values[k];
        skipped = high + 1 - count;
        if (fall * skipped > excess) {
          skipped = std::max(static_cast<int>(std::ceil(excess / fall * (1 - kSlack))), 1);
        }
      }
    }
    if (skipped == 0) {
      Sums child = sums;
      child.Add(level, count, limited_count_);
      chosen = count;
      pool -= count - slot.low;
      vcpus -= (count - slot.low) * vcpus_each;
      const bool is_done = Descend(depth + 1, left - count, child);
      pool += count - slot.low;
      vcpus += (count - slot.low) * vcpus_each;
      if (!is_done) {
        chosen = 0;
        return false;
      }
      skipped = 1;
    }
    count += skipped;
  }
  chosen = 0;
  return true;
}

void ExactDive::Leaf(const Sums& sums) {
  const PlanProblem& problem = basis_.problem();
  const ServerChoice& server = basis_.servers()[static_cast<size_t>(region_->server)];
  // With the model's own rates, what it would say follows from the sums but for rounding; with
  // bounds of them, the best it could say.
  Range batch_mean{
      sums.rate_min > 0 ? sums.samples_per_s_min / sums.rate : 0,
      sums.rate_min > 0 ? sums.samples_per_s / sums.rate_min : region_->batch_mean.high};
  Range heterogeneity = relaxation_->heterogeneity;
  if (frame_->is_exact) {
    heterogeneity.low = HeterogeneityOfSums(sums.samples_per_s, sums.square_sum, sums.fastest);
    heterogeneity.high = heterogeneity.low;
  }
  batch_mean.low = std::max(batch_mean.low, region_->batch_mean.low * (1 - kSlack));
  batch_mean.high = std::min(batch_mean.high, region_->batch_mean.high * (1 + kSlack));
  if (batch_mean.low > batch_mean.high * (1 + kSlack)) {
    return;  // another region's
  }
  batch_mean.high = std::max(batch_mean.high, batch_mean.low);
  const double steps = problem.loss->StepsAtLeast(
      problem.goal.loss, {region_->workers, batch_mean, heterogeneity, frame_->late});
  // By the samples per second too, where batches differ by what is known of the speeds alone.
  const BatchLine line = problem.loss->BatchLineOf(batch_mean);
  const double seconds = steps / std::min(
                                     {sums.rate,
                                      frame_->fleet_rate_max,
                                      line.constant * sums.rate + line.slope * sums.samples_per_s});
  if (seconds > basis_.RunSecondsMax(relaxation_->start_s) * (1 + kSlack) ||
      seconds * (sums.usd_run_per_s + server.usd_per_s) +
              relaxation_->start_s * (sums.usd_per_s + server.usd_per_s) >
          usd_limit_) {
    return;
  }
  Consider(counts_, server);
  UpdateLimit();
}

void ExactDive::Consider(const std::vector<int>& counts, const ServerChoice& server) {
  const Verdict verdict = judge_.Judge(counts, server.offer, server.hosts);
  if (verdict.usd <= best_.usd_limit() * (1 + kSlack) && judge_.MeetsGoal(verdict)) {
    best_.Add(judge_.Choose(counts, server.offer, server.hosts));
  }
}

}  // namespace ps::provisioner
