#include "ps/coordinator/meters/divergence.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace ps::coordinator {
namespace {

/// So many steps are judged together, or two of each member when that is more.
constexpr size_t kStepsLeast = 64;

}  // namespace

DivergenceWatch::Step DivergenceWatch::KindOf(bool is_rejected, std::optional<double> loss) {
  if (is_rejected || (loss && !std::isfinite(*loss))) {
    return Step::kNotFinite;
  }
  best_loss_ = std::min(best_loss_, loss.value_or(best_loss_));
  return loss && *loss > LossMax() ? Step::kFarOff : Step::kUseful;
}

/// A model that guesses gives each class the same probability.
double DivergenceWatch::LossMax() const {
  return classes_ < 2 ? std::numeric_limits<double>::infinity()
                      : kFarOff * std::max(std::log(static_cast<double>(classes_)), best_loss_);
}

void DivergenceWatch::OnStep(bool is_rejected, std::optional<double> loss, size_t member_count) {
  steps_.push_back(KindOf(is_rejected, loss));
  ++counts_[static_cast<size_t>(steps_.back())];
  const size_t window = std::max(kStepsLeast, 2 * member_count);
  while (steps_.size() > window) {
    --counts_[static_cast<size_t>(steps_.front())];
    steps_.pop_front();
  }
  if (steps_.size() == window) {
    Judge();
  }
}

void DivergenceWatch::OnLastStep(uint64_t steps_of_run) {
  if (steps_.size() >= std::min<uint64_t>(kStepsLeast, steps_of_run)) {
    Judge();
  }
}

void DivergenceWatch::Judge() {
  const size_t far_off = counts_[static_cast<size_t>(Step::kFarOff)];
  const size_t useless = counts_[static_cast<size_t>(Step::kNotFinite)] + far_off;
  if (!why_.empty() || 2 * useless <= steps_.size()) {
    return;
  }
  why_ = fmt::format(
      "{} of the last {} steps gave a gradient or a loss that is not finite",
      useless,
      steps_.size());
  if (far_off > 0) {
    why_ += fmt::format(
        ", or a loss above {:.3g}, which is {:g} times that of a guess or of the best step",
        LossMax(),
        kFarOff);
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
