#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "ps/base/ids.h"
#include "ps/proto/messages.h"

namespace ps::coordinator {

/// The samples that each member computes in a second, and what follows from it.
/// train.batch_policy by_speed: what the members' minibatches are in all is shared in proportion to
/// that, so that their steps take equally long. Speeds are kept in whole numbers, so their sum does
/// not depend on who came and went.
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

  /// Its speed as a share of the fastest one's, above 0. 1 while it is not known.
  double SpeedOf(Incarnation incarnation) const;

  static constexpr int kChangeMax = 4;

 private:
  struct Share {
    uint32_t base = 0;
    int64_t speed = 0;  // 1e-6 samples/s, smoothed
  };

  void Replace(int64_t old, int64_t speed);

  std::map<Incarnation, Share> shares_;
  std::multiset<int64_t> speeds_;  // of shares_
  int64_t base_sum_ = 0;
  int64_t speed_sum_ = 0;
};

}  // namespace ps::coordinator
