#pragma once

#include <cstdint>
#include <map>

#include "ps/base/ids.h"
#include "ps/proto/messages.h"

namespace ps::coordinator {

/// train.batch_policy by_speed: what the members' minibatches are in all is shared in proportion to
/// the samples that each computes in a second, so that their steps take equally long. Speeds are
/// kept in whole numbers, so their sum does not depend on who came and went.
class BatchShares {
 public:
  /// A heartbeat of a member whose own minibatch is `base`: what it has done, before and now.
  void Note(
      Incarnation incarnation,
      uint32_t base,
      const proto::WorkerStats& before,
      const proto::WorkerStats& now);

  void Remove(Incarnation incarnation);

  /// Samples of the next steps of a member that has steps of `current` now. Stays `current` while
  /// its speed is not known, and when the share differs by a few percent only; between the
  /// member's own divided by kChangeMax, since steps cost time whatever is in them, and multiplied
  /// with it. Requires: current > 0.
  uint32_t BatchOf(Incarnation incarnation, uint32_t current) const;

  static constexpr int kChangeMax = 4;

 private:
  struct Share {
    uint32_t base = 0;
    int64_t speed = 0;  // 1e-6 samples/s, smoothed
  };

  std::map<Incarnation, Share> shares_;
  int64_t base_sum_ = 0;
  int64_t speed_sum_ = 0;
};

}  // namespace ps::coordinator
