#pragma once

#include <cstdint>
#include <span>

#include "worker/data/pictures/picture.h"

namespace ps::worker {

/// The size that a picture is resized to before its middle is cut out: as small as can be, with its
/// proportions, and not below `size` in either direction. The other side is rounded down. It is
/// what torchvision's Resize(side) makes where height and width of `size` are one.
PictureSize CoveringSize(const PictureSize& picture, const PictureSize& size);

/// Resizes to CoveringSize by a triangle filter that grows with the scale, so that all pixels count
/// (antialiased bilinear), and cuts out the middle, as torchvision's CenterCrop has it. Weights are
/// integers of 22 bits, and rows are made before columns, as in Pillow 10.4: the bytes are the same
/// on every machine.
///   planes  [channels, size.height, size.width], written
/// Requires: no size is 0.
void ResizeAndCrop(const Picture& picture, const PictureSize& size, std::span<uint8_t> planes);

}  // namespace ps::worker
