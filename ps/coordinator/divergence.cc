#include "ps/coordinator/divergence.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace ps::coordinator {
namespace {

/// So many steps are judged together, or two of each member when that is more.
constexpr size_t kStepsLeast = 64;

}  // namespace

void DivergenceWatch::OnStep(bool is_useless, size_t member_count) {
  steps_.push_back(is_useless);
  useless_ += is_useless ? 1 : 0;
  const size_t window = std::max(kStepsLeast, 2 * member_count);
  while (steps_.size() > window) {
    useless_ -= steps_.front() ? 1 : 0;
    steps_.pop_front();
  }
  if (steps_.size() == window) {
    Judge();
  }
}

void DivergenceWatch::OnLastStep() {
  Judge();
}

void DivergenceWatch::Judge() {
  if (why_.empty() && 2 * useless_ > steps_.size()) {
    why_ = fmt::format(
        "{} of the last {} steps gave a gradient or a loss that is not finite",
        useless_,
        steps_.size());
  }
}

void DivergenceWatch::OnShard(ShardId shard, const proto::ShardStats& stats) {
  AtShard& last = shards_[shard];
  const bool has_begun_anew =
      stats.steps_applied < last.steps || stats.chunks_overflowed < last.overflows;
  if (has_begun_anew) {
    last = {stats.steps_applied, stats.chunks_overflowed};
  }
  const uint64_t steps = stats.steps_applied - last.steps;
  const uint64_t overflows = stats.chunks_overflowed - last.overflows;
  if (steps < kStepsLeast) {
    return;
  }
  if (why_.empty() && 2 * overflows > steps) {
    why_ = fmt::format(
        "{} updates in the last {} steps would have made parameters of shard {} infinite",
        overflows,
        steps,
        shard.value);
  }
  last = {stats.steps_applied, stats.chunks_overflowed};
}

void DivergenceWatch::OnEvaluation(const proto::EvaluationRow& row) {
  if (why_.empty() && !std::isfinite(row.loss)) {
    why_ = fmt::format("the loss on the test samples after epoch {} is not finite", row.epoch);
  }
}

}  // namespace ps::coordinator
