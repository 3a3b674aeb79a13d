#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ps::worker {

/// What a byte becomes: (byte - mean) / deviation.
struct ByteNormal {
  double mean = 0;
  double deviation = 1;  // above 0

  std::array<float, 256> Values() const {
    std::array<float, 256> values{};
    for (size_t byte = 0; byte < values.size(); ++byte) {
      values[byte] = static_cast<float>((static_cast<double>(byte) - mean) / deviation);
    }
    return values;
  }

  friend bool operator==(const ByteNormal&, const ByteNormal&) = default;
};

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
