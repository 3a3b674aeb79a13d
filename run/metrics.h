#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "run/directory/run_directory.h"
#include "run/event_file.h"

namespace ps::run {

/// Where a run is at one moment, for plots. What is not known is absent: before the first step a
/// loss of 0 would be a lie.
struct MetricsPoint {
  std::optional<double> epoch;  // 1.25: a quarter of the second one is counted
  std::optional<double> samples_per_s;
  std::optional<double> train_loss;
  std::optional<double> train_accuracy;
  std::optional<proto::EvaluationRow> evaluation;  // the newest
  std::optional<double> lr;                        // the largest of the shards'
  /// Mean lead, in steps, of the pulls that were answered since the point before.
  std::optional<double> staleness_steps;
};

/// Turns statuses into points. Keeps what a point needs of the one before.
class MetricsMeter {
 public:
  MetricsPoint Measure(const proto::JobStatus& status);

 private:
  uint64_t pulls_ = 0;
  uint64_t lead_sum_ = 0;
};

/// One JSON object on one line. docs/run-directory.md documents each field.
std::string MetricsToJson(
    const proto::JobStatus& status, const MetricsPoint& point, int64_t unix_micros);

/// What a point has for TensorBoard, evaluations apart.
std::vector<Scalar> ScalarsOf(const proto::JobStatus& status, const MetricsPoint& point);

/// The files of a run that plots are made from: metrics.jsonl, and a TensorBoard event file when
/// asked for. A full disk costs records, not the run.
class MetricsFiles {
 public:
  /// Errors: kIo with the path.
  static Result<MetricsFiles> Open(
      const RunPaths& paths, bool has_tensorboard, int64_t unix_micros);

  /// The test results of `status` are in the files already.
  void SkipEvaluations(const proto::JobStatus& status);

  /// Returns a text to show when something was lost for the first time.
  std::optional<std::string> Write(const proto::JobStatus& status, int64_t unix_micros);

 private:
  MetricsMeter meter_;
  AppendFile lines_;
  std::optional<AppendFile> events_;
  std::set<uint32_t> evaluations_told_;  // by epoch
};

}  // namespace ps::run
