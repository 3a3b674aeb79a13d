#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace ps::worker {

/// Pictures as they are stored, a byte a channel of a pixel, and what becomes of the bytes.
struct PictureFormat {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t pad = 0;  // black pixels around them in the model's input
  /// [channels]: the value of each byte. Black is byte 0.
  std::vector<std::array<float, 256>> values = {};

  int64_t byte_count() const { return channels * height * width; }
};

}  // namespace ps::worker
