#pragma once

#include <cstdint>

namespace ps::worker {

/// The order in which an epoch visits its samples: a permutation of [0, n) as a function, so that
/// it takes no memory and every worker computes any part of it by itself. Same (seed, epoch, n),
/// same order, on every machine. What else it comes to depend on may not change while an epoch is
/// in progress: coordinator::CheckSameOrder refuses a resume then.
class EpochOrder {
 public:
  /// Requires: n > 0.
  EpochOrder(uint64_t seed, uint64_t epoch, uint64_t n);

  /// The sample at `position`. Requires: position < n.
  uint64_t SampleAt(uint64_t position) const;

  uint64_t count() const { return n_; }

  /// Differs from seed to seed and from epoch to epoch.
  uint64_t key() const { return key_; }

 private:
  uint64_t Permute(uint64_t value) const;

  uint64_t n_;
  uint64_t key_;
  uint32_t half_bits_;
};

}  // namespace ps::worker
