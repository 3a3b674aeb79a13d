#pragma once

#include <cstdint>
#include <vector>

#include "ps/proto/job/task.h"
#include "ps/proto/messages.h"

namespace ps::coordinator {

/// What a whole evaluation has added up.
struct EvaluationSums {
  void Add(double part_loss_sum, uint64_t part_correct, const proto::MetricSums& part);

  double loss_sum = 0;
  uint64_t correct = 0;
  proto::MetricSums metrics;
};

/// What an evaluation is told as, by what the model learns.
struct EvaluationKind {
  /// That of the job. Text is measured by its perplexity, too, where the loss is made of the
  /// probabilities alone.
  static EvaluationKind Of(const proto::JobConfig& config);
  static EvaluationKind Of(
      const std::vector<proto::LayerConfig>& layers, proto::Task task, bool is_text);

  /// MetricOf(task) of so many samples. R2 where all targets are one number is 1 for a model that
  /// knows it, else 0. Requires: samples > 0.
  double MetricValue(const EvaluationSums& sums, uint64_t samples) const;
  /// The rest, by name: test_mae and test_rmse, test_top5, test_exact_match, test_perplexity. Of
  /// what is not finite nothing is told.
  std::vector<proto::Figure> Figures(const EvaluationSums& sums, uint64_t samples) const;

  proto::Task task = proto::Task::kClasses;
  bool has_perplexity = false;
};

/// Errors: kInvalidArgument unless these can be sums over so many samples. NaN is nothing wrong: a
/// model that has diverged makes it.
Status CheckMetricSums(const proto::MetricSums& sums, uint64_t samples);

}  // namespace ps::coordinator
