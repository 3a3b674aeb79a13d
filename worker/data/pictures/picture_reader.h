#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "worker/data/load_progress.h"
#include "worker/data/pictures/picture.h"

namespace ps::worker {

/// Calls work(0) to work(count - 1) on all cores of the machine, and returns when all are done, or
/// when some have failed and none is at work any more: the failure of the lowest number then.
Status ForEachOnAllCores(size_t count, const std::function<Status(size_t)>& work);

/// The size, upright, that the headers of all these files say. Requires: there are some. Errors:
/// kInvalidArgument, they differ: it says which sizes there are and proposes one for data.picture;
/// kNotFound, kIo, kCorruption and kUnsupported with the file; kCancelled by `progress`.
Result<PictureSize> CommonSize(const std::vector<std::string>& paths, LoadProgress* progress);

/// Pictures of one size, in the order of their files.
struct PictureBytes {
  std::vector<uint8_t> pixels;  // [n, channels, height, width]
  std::vector<uint32_t> crcs;   // [n], of the files as they are
};

/// Unpacks, turns, resizes and crops (DecodePicture, ResizeAndCrop) on all cores. Advances
/// `progress` by the files' bytes, which the caller has told it to expect. Requires: 1 or 3
/// channels, no size is 0, and the pixels are not too many for memory. Errors: kCancelled by
/// `progress`; kNotFound, kIo, kCorruption, kUnsupported and kInvalidArgument (a file of more than
/// kPictureFileBytesMax), which name the first file at fault.
Result<PictureBytes> ReadPictures(
    const std::vector<std::string>& paths,
    uint32_t channels,
    const PictureSize& size,
    LoadProgress* progress);

}  // namespace ps::worker
