#include "ps/coordinator/meters/epoch_score.h"

#include <fmt/core.h>

#include <cmath>

#include "ps/base/check.h"

namespace ps::coordinator {

double ScoreOf(const proto::EvaluationRow& row, proto::EpochMetric metric) {
  PS_CHECK(metric != proto::EpochMetric::kNone) << "nothing decides";
  return metric == proto::EpochMetric::kLoss ? row.loss : row.accuracy;
}

bool IsBetter(double score, double other, proto::EpochMetric metric, double by) {
  if (!std::isfinite(score) || !std::isfinite(other)) {
    return std::isfinite(score) && !std::isfinite(other);
  }
  return metric == proto::EpochMetric::kLoss ? score < other - by : score > other + by;
}

std::string ScoreText(double score, std::string_view metric) {
  return fmt::format("{} {:.4g}", metric, score);
}

std::optional<std::string> WhyStopEarly(
    const std::vector<proto::EvaluationRow>& results,
    const proto::StopEarlyConfig& config,
    std::string_view metric) {
  if (config.after_epochs == 0 || results.empty()) {
    return std::nullopt;
  }
  const proto::EvaluationRow* best = &results.front();
  for (const proto::EvaluationRow& row : results) {
    const double score = ScoreOf(row, config.metric);
    if (IsBetter(score, ScoreOf(*best, config.metric), config.metric, config.min_delta)) {
      best = &row;
    }
  }
  const uint32_t newest = results.back().epoch;
  if (newest - best->epoch < config.after_epochs) {
    return std::nullopt;
  }
  return fmt::format(
      "{} of epoch {} was not bettered by more than {:g} in the {} epochs since "
      "(train.stop_early)",
      ScoreText(ScoreOf(*best, config.metric), metric),
      best->epoch,
      config.min_delta,
      newest - best->epoch);
}

}  // namespace ps::coordinator
