#pragma once

#include <cstdint>
#include <span>

#include "ps/base/status.h"
#include "worker/data/pictures/picture.h"

namespace ps::worker {

// JPEG by libjpeg-turbo: baseline and progressive, grey, RGB, YCbCr, CMYK and YCCK, 8 bits. Errors
// name no file: kCorruption, kUnsupported (colours of no known meaning). picture_decoder checks the
// size, before DecodeJpeg takes memory for it.

/// Whether the bytes begin like one.
bool IsJpeg(std::span<const uint8_t> bytes);

/// Reads up to the first scan. `bytes` may be the beginning of a file alone.
Result<PictureHeader> ReadJpegHeader(std::span<const uint8_t> bytes);

/// The picture as it is stored, not turned, of 1 or 3 channels. `divisor` is 1, 2, 4 or 8: the
/// picture is made that much smaller as it is unpacked, which costs less than a resize does; sizes
/// are rounded up. Bytes of a file that ends too early or is damaged are an error.
Result<Picture> DecodeJpeg(std::span<const uint8_t> bytes, uint32_t divisor);

}  // namespace ps::worker
