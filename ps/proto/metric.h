#pragma once

#include <cstdint>
#include <string_view>

namespace ps::proto {

/// How well a model does, besides its loss; the larger the better.
enum class Metric : uint8_t {
  kAccuracy,       // share of samples, or of tokens, whose class is found
  kR2,             // 1 - squared errors / squared distances of the targets from their mean
  kLabelAccuracy,  // share of labels that are right, where a sample has several
};

/// As files and commands name it.
constexpr std::string_view MetricName(Metric metric) {
  switch (metric) {
    case Metric::kR2:
      return "r2";
    case Metric::kLabelAccuracy:
      return "label_accuracy";
    case Metric::kAccuracy:
      break;
  }
  return "accuracy";
}

/// Whether it is known of training samples too, and a share of them.
constexpr bool IsShare(Metric metric) {
  return metric != Metric::kR2;
}

/// What an evaluation adds up besides loss and hits. Sums over outputs are divided by their number,
/// so that each sample counts once. Fields that a task has no use for stay 0.
struct MetricSums {
  double squared_error = 0;
  double absolute_error = 0;
  double target = 0;          // less each output's mean over the training samples
  double target_square = 0;   // of the same
  uint64_t near_hits = 0;     // kAccuracy: the class is among the five largest; kLabelAccuracy: all
                              // labels of the sample are right
  uint64_t near_samples = 0;  // samples that were looked at for this; 0: none were
};

}  // namespace ps::proto
