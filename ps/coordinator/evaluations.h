#pragma once

#include <cstdint>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"

namespace ps::coordinator {

/// A piece of the test set within one evaluation.
struct EvaluationPart {
  uint64_t begin = 0;
  uint64_t end = 0;
  LeaseId lease;  // none: queued
  Incarnation holder;
  bool is_done = false;
  double loss_sum = 0;
  uint64_t correct = 0;
};

struct Evaluation {
  uint32_t epoch = 0;  // after this many epochs
  std::vector<EvaluationPart> parts;
};

/// Evaluations of the held-out data, cut into parts that workers lease. A part whose holder is gone
/// is done again by another one; each counts once.
class Evaluations {
 public:
  /// Requires: samples > 0, parts > 0.
  void Begin(uint32_t epoch, uint64_t samples, uint64_t parts);

  bool is_pending() const { return !pending_.empty(); }

  bool HasWork() const;

  struct Granted {
    uint32_t epoch = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  /// The next queued part. Requires: HasWork().
  Granted Grant(Incarnation holder, LeaseId lease);
  /// The part leased as `lease`, or null when it is not out.
  const EvaluationPart* Find(LeaseId lease) const;
  /// Requires: Find(report.lease) is not null. The last part's report completes a result.
  void Report(const proto::EvaluateReport& report, Duration since_begin);
  /// Parts of `holder` go back to the queue.
  void Return(Incarnation holder);

  const std::vector<Evaluation>& pending() const { return pending_; }

  const std::vector<proto::EvaluationRow>& results() const { return results_; }

 private:
  void Complete(size_t index, Duration since_begin);

  std::vector<Evaluation> pending_;  // oldest first
  std::vector<proto::EvaluationRow> results_;
};

}  // namespace ps::coordinator
