#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace ps::proto {

/// How a chunk travels that is larger than a frame: in parts of a frame's size, the last one
/// shorter. Both ends of a run cut alike, so the elements of a part say which one it is.
class ChunkParts {
 public:
  struct Range {
    uint32_t element_begin = 0;
    uint32_t element_count = 0;
  };

  /// Of no run: every chunk is one part.
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
