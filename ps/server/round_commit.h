#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cpu/optimizer_combine.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/staging.h"

namespace ps::server {

/// A round's update while it is made. Members times parameters are read for it, so it is made in
/// slices, and the shard hears and answers others in between. Owns the contributions.
class RoundCommit {
 public:
  /// `contributions`: in the order in which they are summed; each has every part of the store.
  /// `workers`: how many have contributed, also when the store is empty.
  RoundCommit(
      uint64_t round,
      const UpdateRate& rate,
      size_t workers,
      std::vector<Staging::Contribution> contributions);

  /// Updates until about `bytes_max` bytes of contributions were read. Returns true when all is
  /// done; then it is not called again.
  bool Continue(uint64_t bytes_max, ChunkStore* store);

  uint64_t round() const { return round_; }

  size_t workers() const { return workers_; }

  /// Bytes of the contributions.
  uint64_t bytes() const { return bytes_; }

  uint64_t samples() const { return samples_; }

  size_t contribution_count() const { return contributions_.size(); }

  // So far.
  uint64_t chunks_applied() const { return chunks_applied_; }

  uint64_t chunks_overflowed() const { return chunks_overflowed_; }

 private:
  void EndPass(ChunkStore* store);

  const uint64_t round_;
  UpdateRate rate_;
  const size_t workers_;
  const std::vector<Staging::Contribution> contributions_;
  uint64_t bytes_ = 0;
  uint64_t samples_ = 0;
  // What comes next: an element of a part of a chunk.
  size_t chunk_ = 0;
  uint32_t part_ = 0;
  uint64_t begin_ = 0;
  // The chunk under way. Where the rule asks for it, a first pass measures.
  bool is_measuring_ = false;
  bool is_measured_ = false;
  kernels::Alignment alignment_;
  bool is_finite_ = true;
  uint64_t chunks_applied_ = 0;
  uint64_t chunks_overflowed_ = 0;
  std::vector<kernels::WeightedPart> gradients_;  // scratch
};

}  // namespace ps::server
