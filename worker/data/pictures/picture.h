#pragma once

#include <cstdint>
#include <vector>

namespace ps::worker {

// Limits that are checked before memory is taken.
inline constexpr uint64_t kPictureFileBytesMax = uint64_t{1} << 28;
inline constexpr uint64_t kPicturePixelsMax = uint64_t{1} << 27;  // of a file, before it is resized
inline constexpr uint32_t kPictureSideMax = 65'535;

struct PictureSize {
  uint32_t height = 0;
  uint32_t width = 0;

  friend auto operator<=>(const PictureSize&, const PictureSize&) = default;
};

/// What a file says of its picture before the pixels.
struct PictureHeader {
  PictureSize size;          // as it is stored
  uint32_t orientation = 1;  // EXIF's, 1 to 8; from 5 on height and width change places
  bool is_jpeg = false;
  bool has_scans = false;  // a JPEG that comes in several passes, which are kept in memory

  /// The size once it is turned upright.
  PictureSize upright() const {
    return orientation < 5 ? size : PictureSize{size.width, size.height};
  }
};

/// A picture in memory, a byte a channel.
struct Picture {
  uint32_t channels = 0;  // 1: grey; 3: red, green, blue
  PictureSize size;
  std::vector<uint8_t> pixels;  // [height, width, channels]
};

}  // namespace ps::worker
