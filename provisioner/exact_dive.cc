#include "provisioner/exact_dive.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "provisioner/step_time.h"

namespace ps::provisioner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSlack = 1e-9;  // what sums in another order can differ by, and more

}  // namespace

void ExactDive::FillTables(double Level::*value, bool is_least, std::vector<double> Level::*table) {
  std::vector<size_t> order(levels_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return is_least ? levels_[a].*value < levels_[b].*value : levels_[a].*value > levels_[b].*value;
  });
  const auto total = static_cast<size_t>(region_->workers);
  double low_value = 0;
  size_t low_sum = 0;
  for (size_t depth = levels_.size(); depth-- > 0;) {
    Level& level = levels_[depth];
    low_sum += static_cast<size_t>(level.slot.low);
    low_value += level.slot.low * (level.*value);
    std::vector<double>& sums = level.*table;
    sums.assign(total + 1, is_least ? kInfinity : -kInfinity);
    if (low_sum > total) {
      continue;
    }
    size_t left = low_sum;
    double sum = low_value;
    sums[left] = sum;
    for (const size_t i : order) {
      const Level& other = levels_[i];
      for (int k = other.slot.low; i >= depth && k < other.slot.high && left < total; ++k) {
        sum += other.*value;
        sums[++left] = sum;
      }
    }
  }
}

void ExactDive::Prepare(const Relaxation& relaxation) {
  const Multipliers& multipliers = relaxation.multipliers;
  levels_.clear();
  for (size_t i = 0; i < relaxation.slots.size(); ++i) {
    Level level;
    level.slot = relaxation.slots[i];
    level.rate_max = level.slot.rate_max;
    level.rate_min = level.slot.rate_min;
    level.weight = relaxation.weights[i];
    level.other_weight = relaxation.other_weights[i];
    level.key = level.slot.usd_per_s - multipliers.rate * level.slot.rate_max -
                multipliers.batch * level.weight;
    levels_.push_back(std::move(level));
  }
  // What the relaxation likes least comes first: it is soon clear that there can be little of it.
  std::vector<double> key_of(levels_.size());
  for (size_t i = 0; i < levels_.size(); ++i) {
    double least = kInfinity;
    for (const Level& other : levels_) {
      if (other.slot.worker_class == levels_[i].slot.worker_class) {
        least = std::min(least, other.key);
      }
    }
    key_of[i] = least;
  }
  std::vector<size_t> order(levels_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (key_of[a] != key_of[b]) {
      return key_of[a] > key_of[b];
    }
    const int class_a = levels_[a].slot.worker_class;
    const int class_b = levels_[b].slot.worker_class;
    return class_a != class_b ? class_a < class_b : a < b;
  });
  std::vector<Level> sorted;
  for (const size_t i : order) {
    sorted.push_back(std::move(levels_[i]));
  }
  levels_ = std::move(sorted);
  for (size_t i = 1; i < levels_.size(); ++i) {
    const bool is_same = levels_[i - 1].slot.worker_class == levels_[i].slot.worker_class;
    levels_[i].previous = is_same ? static_cast<int>(i) - 1 : -1;
  }
  levels_.emplace_back();  // nothing is left
  levels_.back().slot.low = 0;
  FillTables(&Level::key, true, &Level::key_least);
  FillTables(&Level::weight, false, &Level::weight_most);
  FillTables(&Level::other_weight, false, &Level::other_weight_most);
  FillTables(&Level::rate_max, false, &Level::rate_most);
  FillTables(&Level::rate_min, true, &Level::rate_least);
}

void ExactDive::UpdateLimit() {
  const Goal& goal = basis_.problem().goal;
  const double budget = std::max(goal.usd_max, goal.usd_max / judge_.quantile_factor());
  usd_limit_ = std::min(best_.usd_limit(), budget) * (1 + kSlack);
  const double usd_left = usd_limit_ - goal.takeover_s * relaxation_->usd_per_s_min;
  const double ratio = usd_left / relaxation_->steps_min;  // USD/s per step/s that still competes
  if (!std::isfinite(ratio)) {
    key_limit_ = kInfinity;
    return;
  }
  const double k = relaxation_->multipliers.rate;
  const double rate = k >= ratio ? relaxation_->rate_needed : relaxation_->rate_max;
  const double servers_usd_per_s = basis_.servers()[static_cast<size_t>(region_->server)].usd_per_s;
  key_limit_ = (ratio - k) * rate - servers_usd_per_s + kSlack * relaxation_->usd_per_s_min;
}

bool ExactDive::Run(
    const Frame& frame, const Region& region, const Relaxation& relaxation, uint64_t nodes_max) {
  frame_ = &frame;
  region_ = &region;
  relaxation_ = &relaxation;
  nodes_left_ = nodes_max;
  Prepare(relaxation);
  counts_.assign(basis_.problem().offers.size(), 0);
  UpdateLimit();
  return Descend(0, region.workers, {});
}

bool ExactDive::Descend(size_t depth, int left, const Sums& sums) {
  if (depth + 1 == levels_.size()) {
    Leaf(sums);
    return true;
  }
  const Level& level = levels_[depth];
  const Level& next = levels_[depth + 1];
  const Slot& slot = level.slot;
  int high = std::min(slot.high, left);
  if (level.previous >= 0) {
    const Slot& previous = levels_[static_cast<size_t>(level.previous)].slot;
    if (counts_[static_cast<size_t>(previous.offer)] < previous.high) {
      high = std::min(high, slot.low);
    }
  }
  const double rate_needed = relaxation_->rate_needed * (1 - kSlack);
  const double rate_limit = frame_->fleet_rate_max * (1 + kSlack);
  const double speed = slot.rate_max * slot.samples;
  for (int count = slot.low; count <= high; ++count) {
    if (nodes_left_ == 0) {
      return false;
    }
    --nodes_left_;
    ++nodes_;
    const auto rest = static_cast<size_t>(left - count);
    Sums child = sums;
    child.key += count * level.key;
    child.rate += count * slot.rate_max;
    child.rate_min += count * slot.rate_min;
    child.weight += count * level.weight;
    child.other_weight += count * level.other_weight;
    if (child.key + next.key_least[rest] > key_limit_ ||
        child.rate + next.rate_most[rest] < rate_needed ||
        child.rate_min + next.rate_least[rest] > rate_limit ||
        child.weight + next.weight_most[rest] < 0 ||
        child.other_weight + next.other_weight_most[rest] < 0) {
      continue;
    }
    child.usd_per_s += count * slot.usd_per_s;
    child.samples_per_s += count * speed;
    child.samples_per_s_min += count * slot.rate_min * slot.samples;
    child.square_sum += count * speed * speed;
    child.fastest = count > 0 ? std::max(child.fastest, speed) : child.fastest;
    counts_[static_cast<size_t>(slot.offer)] = count;
    if (!Descend(depth + 1, static_cast<int>(rest), child)) {
      return false;
    }
  }
  counts_[static_cast<size_t>(slot.offer)] = 0;
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
  const double steps =
      problem.loss->StepsAtLeast(problem.goal.loss, batch_mean, heterogeneity, region_->workers);
  const double seconds = steps / std::min(sums.rate, frame_->fleet_rate_max);
  if (seconds > basis_.run_seconds_max() * (1 + kSlack) ||
      (seconds + problem.goal.takeover_s) * (sums.usd_per_s + server.usd_per_s) > usd_limit_) {
    return;
  }
  Consider(counts_, server);
  UpdateLimit();
}

void ExactDive::Consider(const std::vector<int>& counts, const ServerChoice& server) {
  const Verdict verdict = judge_.Judge(counts, server.offer, server.hosts);
  if (verdict.usd <= best_.usd_limit() * (1 + kSlack) &&
      judge_.MeetsGoal(verdict, judge_.IsHeld(counts))) {
    best_.Add(judge_.Choose(counts, server.offer, server.hosts));
  }
}

}  // namespace ps::provisioner
