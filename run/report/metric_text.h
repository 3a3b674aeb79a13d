#pragma once

#include <string>
#include <string_view>

#include "ps/proto/messages.h"
#include "ps/proto/metric.h"

namespace ps::run {

/// For people: "accuracy", "r2", "label accuracy".
std::string_view MetricTitle(proto::Metric metric);

/// "81.25 %"; r2 as a number, since it may be below 0: "0.8312".
std::string FormatMetric(proto::Metric metric, double value, int decimals = 1);

/// "accuracy 81.2 %" of the training samples; "" where the metric is of whole evaluations.
std::string TrainMetricText(const proto::JobStatus& status);

/// "train_accuracy", "test_r2": names in files.
std::string TrainMetricName(proto::Metric metric);
std::string TestMetricName(proto::Metric metric);

/// The metric of this name; accuracy for names that nobody knows.
proto::Metric MetricOfName(std::string_view name);

}  // namespace ps::run
