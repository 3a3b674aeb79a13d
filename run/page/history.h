#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/messages.h"

namespace ps::run {

/// Where a run was at one moment. What was not known is NaN.
struct HistoryPoint {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  double unix_s = 0;
  double elapsed_s = 0;  // of training
  double epoch = kNone;
  double train_loss = kNone;
  double train_accuracy = kNone;  // or another share, as JobStatus::metric says; of r2 none
  double test_loss = kNone;
  double test_accuracy = kNone;  // or what the metric is
  double samples_per_s = kNone;
  double workers = 0;  // that take part
  double usd_spent = kNone;
};

HistoryPoint HistoryPointOf(const proto::JobStatus& status, double unix_s);

/// A run from its beginning in a bounded number of points: when there are too many, every second
/// one goes, and from then on half as many come. The newest is always there.
class History {
 public:
  /// Requires: points_max >= 4.
  explicit History(size_t points_max = 1000) : points_max_(points_max) {}

  /// Requires: no point is of an earlier time than the one before; such a one is left out.
  void Add(const HistoryPoint& point);

  const std::vector<HistoryPoint>& points() const { return points_; }

  /// How often every second point went: whoever has followed asks anew when it changes.
  uint32_t thinned() const { return thinned_; }

 private:
  size_t points_max_;
  std::vector<HistoryPoint> points_;
  uint32_t thinned_ = 0;
  uint64_t since_kept_ = 0;  // points that came after the newest one that stays
};

/// The history that metrics.jsonl tells, of which lines of a long file are left out. Lines that are
/// none, and what comes after a run was taken up again at an earlier moment, do no harm. Errors:
/// kIo with the path.
Result<History> ReadHistory(const std::string& metrics_path, size_t points_max = 1000);

/// Nothing: the line is no point. Takes any bytes.
bool HistoryPointFromLine(std::string_view line, HistoryPoint* point);

/// {"thinned":0,"columns":[...],"rows":[[...],...]}: the points after `after_unix_s`, or all of
/// them where `thinned` is not what the asker has.
std::string HistoryToJson(const History& history, double after_unix_s, uint32_t thinned);

}  // namespace ps::run
