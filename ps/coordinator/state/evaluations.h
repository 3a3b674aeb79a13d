#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/coordinator/meters/evaluation_metrics.h"
#include "ps/coordinator/state/touched_rows.h"
#include "ps/proto/messages.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

using proto::Evaluation;
using proto::EvaluationPart;
using proto::EvaluationsState;

/// Samples [begin, end) of those that training does not see, numbered as workers do: the tests, and
/// behind them those for validation.
struct SampleSpan {
  uint64_t begin = 0;
  uint64_t end = 0;

  bool is_empty() const { return begin == end; }
};

/// Evaluations of the held-out data, cut into parts that workers lease. A part whose holder is gone
/// is done again by another one; each counts once. An evaluation is of the model as it is when its
/// parts are computed, so one that nobody has begun when the next one begins is given up for that:
/// it would have the next one's result under an earlier epoch's name.
class Evaluations {
 public:
  /// Works on `state` and marks what it changes; both outlive it.
  Evaluations(EvaluationsState* state, TouchedRows* touched, const EvaluationKind& kind = {})
      : state_(state), touched_(touched), kind_(kind) {}

  /// Requires: there are samples, and parts > 0.
  void Begin(uint32_t epoch, SampleSpan samples, uint64_t parts);
  /// Begins the one of the model that is left, after `epoch`. Requires: nothing is pending, too.
  void BeginLast(uint32_t epoch, SampleSpan samples, uint64_t parts);
  /// Those pending have no result.
  void GiveUp();

  bool is_pending() const { return !state_->pending.empty(); }

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

  const std::vector<Evaluation>& pending() const { return state_->pending; }

  const std::vector<proto::EvaluationRow>& results() const { return state_->results; }

  /// What the result after so many epochs tells besides loss and metric.
  std::vector<proto::Figure> FiguresOf(uint32_t epoch) const;
  /// The same of the model that is left, or of the newest result.
  std::vector<proto::Figure> NewestFigures() const;

  /// The result of the model that is left.
  const std::optional<proto::EvaluationRow>& last() const { return state_->last; }

  void SetLast(
      const std::optional<proto::EvaluationRow>& row, std::vector<proto::Figure> figures = {});

 private:
  void Add(uint32_t epoch, SampleSpan samples, uint64_t parts, bool is_last);
  void DropUnbegun();
  void Complete(size_t index, Duration since_begin);
  void MarkPart(const Evaluation& evaluation, const EvaluationPart& part);

  EvaluationsState* const state_;
  TouchedRows* const touched_;
  const EvaluationKind kind_;
};

/// Whether evaluations of the first `tests` samples, or of the others up to `samples`, can be made
/// of a loaded state. Errors: kCorruption naming what is wrong.
Status CheckEvaluationsState(
    const EvaluationsState& state,
    uint64_t tests,
    uint64_t samples,
    uint32_t epochs,
    LeaseId last_lease);

}  // namespace ps::coordinator
