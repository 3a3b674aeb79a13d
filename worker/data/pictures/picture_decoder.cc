#include "worker/data/pictures/picture_decoder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/data/pictures/exif_orientation.h"
#include "worker/data/pictures/jpeg_decoder.h"
#include "worker/data/pictures/png_decoder.h"

namespace ps::worker {
namespace {

constexpr uint64_t kColours = 3;
constexpr uint64_t kCoefficientBytes = 8;  // of a pixel, in 4 channels of 16 bits

/// How much smaller a JPEG may be unpacked.
uint32_t DivisorFor(const PictureHeader& header, const PictureSize& least) {
  const PictureSize size = header.upright();
  const uint64_t times = std::min(
      size.height / std::max<uint64_t>(2 * uint64_t{least.height}, 1),
      size.width / std::max<uint64_t>(2 * uint64_t{least.width}, 1));
  return times >= 8 ? 8 : times >= 4 ? 4 : times >= 2 ? 2 : 1;
}

void MakeGrey(Picture* picture) {
  const std::vector<uint8_t>& from = picture->pixels;
  std::vector<uint8_t> grey(from.size() / kColours);
  for (size_t i = 0; i < grey.size(); ++i) {
    const uint8_t* const pixel = from.data() + i * kColours;
    grey[i] = static_cast<uint8_t>(
        (19595U * pixel[0] + 38470U * pixel[1] + 7471U * pixel[2] + 0x8000U) >> 16U);
  }
  picture->pixels = std::move(grey);
  picture->channels = 1;
}

void MakeColours(Picture* picture) {
  std::vector<uint8_t> colours;
  colours.reserve(picture->pixels.size() * kColours);
  for (const uint8_t grey : picture->pixels) {
    colours.insert(colours.end(), kColours, grey);
  }
  picture->pixels = std::move(colours);
  picture->channels = kColours;
}

}  // namespace

Result<PictureHeader> ReadPictureHeader(std::span<const uint8_t> bytes) {
  const bool is_png = IsPng(bytes);
  if (!is_png && !IsJpeg(bytes)) {
    return Status::Corruption(
        "neither a PNG nor a JPEG, whatever its name says; convert it, or move it away");
  }
  PS_ASSIGN(const PictureHeader header, is_png ? ReadPngHeader(bytes) : ReadJpegHeader(bytes));
  const PictureSize& size = header.size;
  if (std::max(size.height, size.width) > kPictureSideMax ||
      uint64_t{size.height} * size.width > kPicturePixelsMax) {
    return Status::Unsupported(fmt::format(
        "{} x {} pixels; allowed: sides of up to {}, and {} pixels in all",
        size.width,
        size.height,
        kPictureSideMax,
        kPicturePixelsMax));
  }
  return header;
}

uint64_t MemoryForDecoding(const PictureHeader& header, const PictureSize& least) {
  const uint64_t pixels = uint64_t{header.size.height} * header.size.width;
  const uint64_t stored = header.has_scans ? kCoefficientBytes * pixels : 0;
  const uint64_t divisor = header.is_jpeg ? DivisorFor(header, least) : 1;
  return stored + (kColours + 4) * (pixels / (divisor * divisor));  // 4: inks, or turned upright
}

Result<Picture> DecodePicture(
    std::span<const uint8_t> bytes,
    const PictureHeader& header,
    uint32_t channels,
    const PictureSize& least) {
  PS_ASSIGN(
      Picture picture,
      header.is_jpeg ? DecodeJpeg(bytes, DivisorFor(header, least)) : DecodePng(bytes));
  if (channels == 1 && picture.channels == kColours) {
    MakeGrey(&picture);
  }
  picture = TurnUpright(std::move(picture), header.orientation);
  if (channels == kColours && picture.channels == 1) {
    MakeColours(&picture);
  }
  return picture;
}

}  // namespace ps::worker
