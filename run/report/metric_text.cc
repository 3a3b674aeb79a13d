#include "run/report/metric_text.h"

#include <fmt/core.h>

#include "ps/base/text.h"

namespace ps::run {

using proto::Metric;

std::string_view MetricTitle(Metric metric) {
  return metric == Metric::kLabelAccuracy ? "label accuracy" : proto::MetricName(metric);
}

std::string FormatMetric(Metric metric, double value, int decimals) {
  return proto::IsShare(metric) ? FormatPercent(value, decimals) : fmt::format("{:.4f}", value);
}

std::string TrainMetricText(const proto::JobStatus& status) {
  return proto::IsShare(status.metric) ? fmt::format(
                                             "{} {}",
                                             MetricTitle(status.metric),
                                             FormatMetric(status.metric, status.train_accuracy))
                                       : "";
}

std::string TrainMetricName(Metric metric) {
  return fmt::format("train_{}", proto::MetricName(metric));
}

std::string TestMetricName(Metric metric) {
  return fmt::format("test_{}", proto::MetricName(metric));
}

Metric MetricOfName(std::string_view name) {
  for (const Metric metric : {Metric::kR2, Metric::kLabelAccuracy}) {
    if (proto::MetricName(metric) == name) {
      return metric;
    }
  }
  return Metric::kAccuracy;
}

}  // namespace ps::run
