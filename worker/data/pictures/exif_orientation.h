#pragma once

#include <cstdint>
#include <span>

#include "worker/data/pictures/picture.h"

namespace ps::worker {

/// The orientation, 1 to 8, in the TIFF structure that EXIF is: of a JPEG what follows "Exif\0\0",
/// of a PNG its chunk eXIf. 1 (upright) where there is none or the structure is damaged, as
/// everybody reads it.
uint32_t OrientationIn(std::span<const uint8_t> tiff);

/// The same picture upright. Requires: orientation is 1 to 8.
Picture TurnUpright(Picture picture, uint32_t orientation);

}  // namespace ps::worker
