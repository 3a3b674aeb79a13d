#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/messages.h"

namespace ps::proto {

// How tensors are cut: into chunks, which are placed and updated, and chunks into parts, which
// travel. All offsets of either are computed here.

/// How many chunks of at most `chunk_bytes` a tensor of `elements` is cut into.
uint64_t ChunkCountOf(int64_t elements, uint64_t chunk_bytes);

/// All chunks of a model by key, of no shard yet. Requires: chunk_bytes >= 4.
std::vector<ChunkAssignment> CutIntoChunks(
    const std::vector<TensorSpec>& tensors, uint64_t chunk_bytes);

/// Errors: kInvalidArgument unless every chunk is a piece of its tensor and none overlap, in key
/// order.
Status CheckChunks(const Placement& placement, std::span<const int64_t> tensor_elements);

/// The same, and they cover every element of every tensor.
Status CheckPlacement(const Placement& placement, std::span<const int64_t> tensor_elements);

/// Where tensors lie in one flat f32 buffer: in index order, each from a multiple of
/// kBufferAlignment on.
class TensorLayout {
 public:
  TensorLayout() = default;
  explicit TensorLayout(std::span<const int64_t> tensor_elements);

  size_t tensor_count() const { return offsets_.size(); }

  /// In elements from the start of the buffer.
  int64_t OffsetOf(size_t tensor) const { return offsets_[tensor]; }

  /// Elements of the buffer, padding included.
  int64_t element_count() const { return element_count_; }

 private:
  std::vector<int64_t> offsets_;
  int64_t element_count_ = 0;
};

/// How a chunk travels that is larger than a frame: in parts of a frame's size, the last one
/// shorter. Both ends of a run cut alike, so the elements of a part say which one it is.
class ChunkParts {
 public:
  struct Range {
    uint32_t element_begin = 0;
    uint32_t element_count = 0;
  };

  /// For no run: every chunk is one part.
  ChunkParts() = default;

  explicit ChunkParts(uint64_t frame_bytes)
      : part_elements_(std::max<uint64_t>(frame_bytes / sizeof(float), 1)) {}

  /// 1 for a chunk that fits a frame.
  uint32_t CountOf(uint64_t chunk_elements) const {
    return static_cast<uint32_t>((chunk_elements + part_elements_ - 1) / part_elements_);
  }

  /// Requires: part < CountOf(chunk_elements).
  Range At(uint64_t chunk_elements, uint32_t part) const {
    const uint64_t begin = part * part_elements_;
    return {
        static_cast<uint32_t>(begin),
        static_cast<uint32_t>(std::min(part_elements_, chunk_elements - begin))};
  }

  /// Which part of a chunk the range is; nothing when it is none.
  std::optional<uint32_t> IndexOf(uint64_t chunk_elements, const Range& range) const {
    if (range.element_begin % part_elements_ != 0 || range.element_begin >= chunk_elements) {
      return std::nullopt;
    }
    const auto part = static_cast<uint32_t>(range.element_begin / part_elements_);
    if (range.element_count != At(chunk_elements, part).element_count) {
      return std::nullopt;
    }
    return part;
  }

 private:
  uint64_t part_elements_ = UINT32_MAX;
};

}  // namespace ps::proto
