#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "ps/base/ids.h"
#include "ps/proto/messages.h"

namespace ps::coordinator {

/// Finds out whether training has diverged: most of the last steps were of no use, or the model is.
/// A step is of no use when its gradient was rejected, when its loss is not finite, or when its
/// loss is more than kFarOff times that of a model that guesses and that of the best step so far.
/// Spikes that a run survives are lower or shorter. One broken worker among several does not make
/// it so. A coordinator that was restarted looks at the steps from then on.
class DivergenceWatch {
 public:
  static constexpr double kFarOff = 10;

  /// `classes` that a sample may be of; 0: not known, so that no finite loss is far off.
  explicit DivergenceWatch(int64_t classes) : classes_(classes) {}

  /// A step was counted. `loss` is the mean of its samples; none: not known, which says nothing.
  void OnStep(bool is_rejected, std::optional<double> loss, size_t member_count);
  /// What a shard has told of itself: updates may have been left out since they would have made
  /// parameters infinite.
  void OnShard(ShardId shard, const proto::ShardStats& stats);
  /// The loss on the test samples is known.
  void OnEvaluation(const proto::EvaluationRow& row);
  /// All steps are counted, so many in the whole run: those that were seen are judged, unless they
  /// are the few since a restart. One bad step must not end a run that is done.
  void OnLastStep(uint64_t steps_of_run);

  bool has_diverged() const { return !why_.empty(); }

  /// The first thing that showed it; empty: nothing has.
  const std::string& why() const { return why_; }

 private:
  struct AtShard {
    uint64_t steps = 0;
    uint64_t overflows = 0;
  };

  enum class Step : uint8_t { kUseful, kNotFinite, kFarOff };

  Step KindOf(bool is_rejected, std::optional<double> loss);
  /// A finite loss above this is far off.
  double LossMax() const;
  void Judge();

  const int64_t classes_;
  double best_loss_ = std::numeric_limits<double>::infinity();
  std::deque<Step> steps_;             // the last ones
  std::array<size_t, 3> counts_{};     // of these, by kind
  std::map<ShardId, AtShard> shards_;  // when it was judged last
  std::string why_;
};

}  // namespace ps::coordinator
