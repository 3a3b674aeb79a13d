#pragma once

#include <cstdint>
#include <span>

#include "ps/base/status.h"
#include "worker/data/pictures/picture.h"

namespace ps::worker {

// PNG by libpng: 1 to 16 bits, grey, colours, palette, with or without alpha, interlaced or not.
// Errors name no file: kCorruption. picture_decoder checks the size, before DecodePng takes memory
// for it.

/// Whether the bytes begin like one.
bool IsPng(std::span<const uint8_t> bytes);

/// Reads up to the pixels. `bytes` may be the beginning of a file alone.
Result<PictureHeader> ReadPngHeader(std::span<const uint8_t> bytes);

/// The picture as it is stored, not turned, of 1 or 3 channels. 16 bits are scaled to 8 and
/// rounded. Alpha is left out: the colour below it is what counts, as for PIL's convert("RGB"). A
/// gamma is not applied. Bytes of a file that ends too early or is damaged are an error.
Result<Picture> DecodePng(std::span<const uint8_t> bytes);

}  // namespace ps::worker
