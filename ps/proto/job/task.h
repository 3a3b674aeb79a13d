#pragma once

#include <cstdint>
#include <string_view>

#include "ps/proto/job/job_config.h"
#include "ps/proto/metric.h"

namespace ps::proto {

/// What a model learns of a sample. Its loss says so: the last of model.layers.
enum class Task : uint8_t {
  kClasses,  // one of several classes, or one for each token: softmax_cross_entropy
  kNumbers,  // one or several numbers: mse, mae, huber
  kLabels,   // several labels, each 0 or 1: bce
};

/// Whether the kind is that of a loss.
bool IsLoss(LayerKind kind);
/// The loss at the end of the layers, or the one that a model has anyway.
LayerKind LossOf(const ModelConfig& model);
Task TaskOf(const ModelConfig& model);
Metric MetricOf(Task task);
/// By what epochs are judged, as files and commands name it: "accuracy", "r2", "loss"; "": not.
std::string_view NameOf(EpochMetric metric, const ModelConfig& model);

}  // namespace ps::proto
