#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ps::worker {

struct JpegParts {
  uint32_t width = 1;
  uint32_t height = 1;
  int channels = 3;             // 1 grey, 3 RGB, stored as YCbCr, 4 CMYK, stored as YCCK
  bool is_progressive = false;  // in several scans
  std::string exif = {};        // TIFF structure; empty: none
};

/// A JPEG of pixels [height, width, channels], of the best quality, every channel at full size.
std::string JpegBytes(const JpegParts& parts, std::string_view pixels);

}  // namespace ps::worker
