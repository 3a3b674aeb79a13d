#pragma once

#include <cstdint>

namespace ps {

/// How a picture is changed: moved down and to the right, or the other way when negative, with
/// black where nothing comes in, and then mirrored left to right.
struct PictureMove {
  int32_t down = 0;
  int32_t right = 0;
  uint32_t is_mirrored = 0;  // 0 or 1

  friend bool operator==(const PictureMove&, const PictureMove&) = default;
};

}  // namespace ps
