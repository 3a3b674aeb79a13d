#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"

namespace ps::coordinator {

/// What an evaluation is worth. Requires: the metric is not kNone.
double ScoreOf(const proto::EvaluationRow& row, proto::EpochMetric metric);

/// Whether a score is better than another by more than `by`. One that is not finite is no better
/// than any, and worse than those that are.
bool IsBetter(double score, double other, proto::EpochMetric metric, double by = 0);

/// "accuracy" or "loss"; empty: none.
std::string_view MetricName(proto::EpochMetric metric);

/// "accuracy 0.9312", or "loss 0.2071".
std::string ScoreText(double score, proto::EpochMetric metric);

/// Why training is to end by train.stop_early, from the results of its epochs in their order.
/// Nothing: it goes on.
std::optional<std::string> WhyStopEarly(
    const std::vector<proto::EvaluationRow>& results, const proto::StopEarlyConfig& config);

}  // namespace ps::coordinator
