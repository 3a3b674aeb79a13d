#include "ps/coordinator/meters/evaluation_metrics.h"

#include <cmath>

namespace ps::coordinator {

using proto::MetricSums;
using proto::Task;

void EvaluationSums::Add(double part_loss_sum, uint64_t part_correct, const MetricSums& part) {
  loss_sum += part_loss_sum;
  correct += part_correct;
  metrics.squared_error += part.squared_error;
  metrics.absolute_error += part.absolute_error;
  metrics.target += part.target;
  metrics.target_square += part.target_square;
  metrics.near_hits += part.near_hits;
  metrics.near_samples += part.near_samples;
}

EvaluationKind EvaluationKind::Of(const proto::JobConfig& config) {
  const bool is_text =
      config.worker.program.empty() && config.data.format == proto::DatasetFormat::kText;
  return Of(config.model.layers, proto::TaskOf(config.model), is_text);
}

EvaluationKind EvaluationKind::Of(
    const std::vector<proto::LayerConfig>& layers, Task task, bool is_text) {
  const bool is_plain =
      layers.empty() || (layers.back().label_smoothing == 0 && layers.back().class_weights.empty());
  return {task, is_text && is_plain};
}

double EvaluationKind::MetricValue(const EvaluationSums& sums, uint64_t samples) const {
  const auto n = static_cast<double>(samples);
  if (task != Task::kNumbers) {
    return static_cast<double>(sums.correct) / n;
  }
  // Rounding may leave a little of what is 0.
  const MetricSums& m = sums.metrics;
  const double spread = m.target_square - m.target * m.target / n;
  if (spread <= 1e-12 * m.target_square) {
    return m.squared_error == 0 ? 1 : 0;
  }
  return 1 - m.squared_error / spread;
}

std::vector<proto::Figure> EvaluationKind::Figures(
    const EvaluationSums& sums, uint64_t samples) const {
  const auto n = static_cast<double>(samples);
  const MetricSums& m = sums.metrics;
  const double near = m.near_samples == 0
                          ? 0
                          : static_cast<double>(m.near_hits) / static_cast<double>(m.near_samples);
  std::vector<proto::Figure> figures;
  const auto tell = [&figures](const char* name, double value) {
    if (std::isfinite(value)) {
      figures.push_back({name, value});
    }
  };
  switch (task) {
    case Task::kNumbers:
      tell("test_mae", m.absolute_error / n);
      tell("test_rmse", std::sqrt(m.squared_error / n));
      break;
    case Task::kLabels:
      if (m.near_samples > 0) {
        tell("test_exact_match", near);
      }
      break;
    case Task::kClasses:
      if (m.near_samples > 0) {
        tell("test_top5", near);
      }
      if (has_perplexity) {
        tell("test_perplexity", std::exp(sums.loss_sum / n));
      }
      break;
  }
  return figures;
}

Status CheckMetricSums(const MetricSums& sums, uint64_t samples) {
  const bool is_sane = !(sums.squared_error < 0) && !(sums.absolute_error < 0) &&
                       !(sums.target_square < 0) && sums.near_hits <= sums.near_samples &&
                       sums.near_samples <= samples;
  return is_sane ? Status::Ok()
                 : Status::InvalidArgument(
                       "sums of an evaluation that no samples make: errors below 0, or more hits "
                       "than samples");
}

}  // namespace ps::coordinator
