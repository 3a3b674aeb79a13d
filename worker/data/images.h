#pragma once

#include <cstdint>
#include <vector>

#include "worker/model/model.h"

namespace ps::worker {

/// Classified images as a file holds them.
struct LabeledImages {
  Shape shape;
  std::vector<uint8_t> pixels;  // [n, c, h, w]
  std::vector<uint8_t> labels;  // [n]

  uint64_t count() const { return labels.size(); }
};

/// What is known of a file pair without reading its pixels.
struct ImageSetInfo {
  Shape shape;
  uint64_t count = 0;
};

// Limits that are checked before memory is taken.
inline constexpr int64_t kImageSideMax = 4096;
inline constexpr uint64_t kImageCountMax = uint64_t{1} << 28;
inline constexpr uint64_t kPixelBytesMax = uint64_t{1} << 33;

}  // namespace ps::worker
