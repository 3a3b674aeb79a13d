#pragma once

#include <cstdint>
#include <span>

#include "ps/base/status.h"
#include "worker/data/pictures/picture.h"

namespace ps::worker {

// PNG and JPEG by what their bytes are, whatever the file is called. Errors name no file:
// kCorruption (damaged, cut, neither of the two), kUnsupported (what the decoders do not know, a
// side beyond kPictureSideMax, more pixels than kPicturePixelsMax). Thread: any.

/// `bytes` may be the beginning of a file alone, if that has all that comes before the pixels.
Result<PictureHeader> ReadPictureHeader(std::span<const uint8_t> bytes);

/// What the decoder takes at most, in bytes, beside the file. `least` is as DecodePicture has it.
uint64_t MemoryForDecoding(const PictureHeader& header, const PictureSize& least);

/// The picture upright, with 1 or 3 `channels`: grey is put into all three, and colours become grey
/// as PIL makes them, (19595 r + 38470 g + 7471 b + 32768) / 65536. A JPEG that has at least so
/// many times `least` (upright) in both directions is unpacked at half, a quarter or an eighth of
/// its size, and keeps twice `least`: PIL's draft does the same. `header` is that of the bytes.
Result<Picture> DecodePicture(
    std::span<const uint8_t> bytes,
    const PictureHeader& header,
    uint32_t channels,
    const PictureSize& least);

}  // namespace ps::worker
