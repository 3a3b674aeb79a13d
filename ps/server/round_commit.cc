#include "ps/server/round_commit.h"

#include <algorithm>

namespace ps::server {
namespace {

/// A slice has at least so many elements of each contribution, so that it is worth its event.
constexpr uint64_t kSliceElementsMin = 1024;

}  // namespace

RoundCommit::RoundCommit(
    uint64_t round,
    const UpdateRate& rate,
    size_t workers,
    std::vector<Staging::Contribution> contributions)
    : round_(round), rate_(rate), workers_(workers), contributions_(std::move(contributions)) {
  for (const Staging::Contribution& contribution : contributions_) {
    bytes_ += contribution.bytes;
    samples_ += contribution.samples;
  }
}

bool RoundCommit::Continue(uint64_t bytes_max, ChunkStore* store) {
  const uint64_t element_bytes = contributions_.size() * sizeof(float);
  uint64_t bytes_left = bytes_max;
  while (chunk_ < store->size() && !contributions_.empty()) {
    if (bytes_left == 0) {
      return false;
    }
    const Chunk& chunk = store->chunks()[chunk_];
    if (chunk.is_frozen) {
      ++chunk_;
      continue;
    }
    if (part_ == 0 && begin_ == 0 && !is_measured_) {
      is_measuring_ = store->IsTurned(chunk_);
    }
    const uint64_t part_elements = store->RangeOf(chunk, part_).element_count;
    const uint64_t count =
        std::min(part_elements - begin_, std::max(bytes_left / element_bytes, kSliceElementsMin));
    gradients_.clear();
    for (const Staging::Contribution& contribution : contributions_) {
      const std::span<const float> values = contribution.parts[chunk.first_part + part_].values;
      gradients_.push_back({values.data() + begin_, static_cast<float>(contribution.samples)});
    }
    // Their mean may be another value, by rounding.
    const bool is_as_it_is = std::ranges::all_of(gradients_, [&](const auto& gradient) {
      return store->IsObserved(chunk_, part_, begin_, gradient.x, count);
    });
    const std::span<const float> mean =
        is_as_it_is ? std::span<const float>() : store->MeanOf(gradients_, count);
    if (is_as_it_is) {
      // Nothing has moved it.
    } else if (is_measuring_) {
      store->Measure(chunk_, part_, begin_, mean, &alignment_);
    } else {
      is_finite_ = store->Apply(chunk_, part_, begin_, mean, rate_) && is_finite_;
    }
    bytes_left -= std::min(bytes_left, count * element_bytes);
    begin_ += count;
    if (begin_ == part_elements) {
      begin_ = 0;
      if (++part_ == chunk.part_count) {
        EndPass(store);
      }
    }
  }
  return true;
}

/// Every element of the chunk had its turn.
void RoundCommit::EndPass(ChunkStore* store) {
  part_ = 0;
  if (is_measuring_) {
    rate_.turn = alignment_.HelocoTurn();
    alignment_ = {};
    is_measuring_ = false;
    is_measured_ = true;
    return;
  }
  rate_.turn = {};
  is_measured_ = false;
  store->FinishUpdate(chunk_++);
  ++chunks_applied_;
  chunks_overflowed_ += is_finite_ ? 0 : 1;
  is_finite_ = true;
}

}  // namespace ps::server
