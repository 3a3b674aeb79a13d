#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "ps/base/ids.h"
#include "ps/proto/messages.h"

namespace ps::coordinator {

/// Finds out whether training has diverged: most of the last steps were of no use, or the model is.
/// One broken worker among several does not make it so. A coordinator that was restarted looks
/// at the steps from then on.
class DivergenceWatch {
 public:
  /// A step was counted. It is of no use when its gradient was rejected, or its loss is not
  /// finite.
  void OnStep(bool is_useless, size_t member_count);
  /// What a shard has told of itself: updates may have been left out since they would have made
  /// parameters infinite.
  void OnShard(ShardId shard, const proto::ShardStats& stats);
  /// The loss on the test samples is known.
  void OnEvaluation(const proto::EvaluationRow& row);
  /// All steps are counted: those there are, are judged.
  void OnLastStep();

  bool has_diverged() const { return !why_.empty(); }

  /// The first thing that showed it; empty: nothing has.
  const std::string& why() const { return why_; }

 private:
  struct AtShard {
    uint64_t steps = 0;
    uint64_t overflows = 0;
  };

  void Judge();

  std::deque<bool> steps_;             // the last ones: was it of no use?
  size_t useless_ = 0;                 // of these
  std::map<ShardId, AtShard> shards_;  // when it was judged last
  std::string why_;
};

}  // namespace ps::coordinator
