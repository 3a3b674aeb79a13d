#include "ps/proto/job/task.h"

namespace ps::proto {

bool IsLoss(LayerKind kind) {
  switch (kind) {
    case LayerKind::kSoftmaxCrossEntropy:
    case LayerKind::kMse:
    case LayerKind::kMae:
    case LayerKind::kHuber:
    case LayerKind::kBce:
      return true;
    default:
      return false;
  }
}

LayerKind LossOf(const ModelConfig& model) {
  return !model.layers.empty() && IsLoss(model.layers.back().kind)
             ? model.layers.back().kind
             : LayerKind::kSoftmaxCrossEntropy;
}

Task TaskOf(const ModelConfig& model) {
  switch (LossOf(model)) {
    case LayerKind::kMse:
    case LayerKind::kMae:
    case LayerKind::kHuber:
      return Task::kNumbers;
    case LayerKind::kBce:
      return Task::kLabels;
    default:
      return Task::kClasses;
  }
}

Metric MetricOf(Task task) {
  switch (task) {
    case Task::kNumbers:
      return Metric::kR2;
    case Task::kLabels:
      return Metric::kLabelAccuracy;
    case Task::kClasses:
      break;
  }
  return Metric::kAccuracy;
}

std::string_view NameOf(EpochMetric metric, const ModelConfig& model) {
  switch (metric) {
    case EpochMetric::kAccuracy:
      return MetricName(MetricOf(TaskOf(model)));
    case EpochMetric::kLoss:
      return "loss";
    case EpochMetric::kNone:
      break;
  }
  return "";
}

}  // namespace ps::proto
