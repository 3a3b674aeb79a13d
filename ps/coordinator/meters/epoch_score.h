#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/proto/job/job_config.h"
#include "ps/proto/job/task.h"
#include "ps/proto/messages.h"

namespace ps::coordinator {

/// What the best checkpoints are judged by, for people.
inline std::string_view BestMetricOf(const proto::JobConfig& config) {
  return proto::NameOf(config.checkpoint.best.metric, config.model);
}

/// What an evaluation is worth. Requires: the metric is not kNone.
double ScoreOf(const proto::EvaluationRow& row, proto::EpochMetric metric);

/// Whether a score is better than another by more than `by`. One that is not finite is no better
/// than any, and worse than those that are.
bool IsBetter(double score, double other, proto::EpochMetric metric, double by = 0);

/// "accuracy 0.9312": `metric` as proto::NameOf has it.
std::string ScoreText(double score, std::string_view metric);

/// Why training is to end by train.stop_early, from the results of its epochs in their order.
/// Nothing: it goes on. `metric`: the name of config.metric.
std::optional<std::string> WhyStopEarly(
    const std::vector<proto::EvaluationRow>& results,
    const proto::StopEarlyConfig& config,
    std::string_view metric);

}  // namespace ps::coordinator
