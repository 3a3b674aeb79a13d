#include "worker/data/pictures/exif_orientation.h"

#include <cstddef>
#include <optional>
#include <utility>

namespace ps::worker {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kShortType = 3;
constexpr size_t kEntryBytes = 12;
constexpr uint32_t kUpright = 1;
constexpr uint32_t kOrientations = 8;

/// Numbers of a TIFF structure, in the byte order that its head names.
class TiffReader {
 public:
  static std::optional<TiffReader> Of(std::span<const uint8_t> bytes) {
    if (bytes.size() < 8 || bytes[0] != bytes[1] || (bytes[0] != 'I' && bytes[0] != 'M')) {
      return std::nullopt;
    }
    TiffReader reader(bytes, bytes[0] == 'I');
    return reader.Number(2, 2) == 42U ? std::optional(reader) : std::nullopt;
  }

  /// `size` bytes at `at`; nothing: they are not there.
  std::optional<uint32_t> Number(size_t at, size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) {
      return std::nullopt;
    }
    uint32_t number = 0;
    for (size_t i = 0; i < size; ++i) {
      number = number << 8U | bytes_[at + (is_little_ ? size - 1 - i : i)];
    }
    return number;
  }

 private:
  TiffReader(std::span<const uint8_t> bytes, bool is_little)
      : bytes_(bytes), is_little_(is_little) {}

  std::span<const uint8_t> bytes_;
  bool is_little_;
};

/// Where a turned picture begins in the stored one, and how far apart neighbours are there, in
/// pixels.
struct Walk {
  int64_t begin = 0;
  int64_t down = 0;
  int64_t right = 0;
};

Walk WalkOf(const PictureSize& size, uint32_t orientation) {
  const int64_t row = size.width;
  const int64_t last_row = (int64_t{size.height} - 1) * row;
  const int64_t last_column = row - 1;
  switch (orientation) {
    case 2:  // mirrored
      return {last_column, row, -1};
    case 3:  // upside down
      return {last_row + last_column, -row, -1};
    case 4:  // mirrored, upside down
      return {last_row, -row, 1};
    case 5:  // rows are columns
      return {0, 1, row};
    case 6:  // to be turned to the right
      return {last_row, 1, -row};
    case 7:  // rows are columns, from the other corner
      return {last_row + last_column, -1, -row};
    case 8:  // to be turned to the left
      return {last_column, -1, row};
    default:
      return {0, row, 1};
  }
}

}  // namespace

uint32_t OrientationIn(std::span<const uint8_t> tiff) {
  const std::optional<TiffReader> reader = TiffReader::Of(tiff);
  if (!reader) {
    return kUpright;
  }
  const size_t directory = reader->Number(4, 4).value_or(0);
  const uint32_t entries = reader->Number(directory, 2).value_or(0);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    const std::optional<uint32_t> tag = reader->Number(entry, 2);
    if (!tag) {
      break;  // it ends before the entries that it announced
    }
    if (tag != kOrientationTag) {
      continue;
    }
    const uint32_t said = reader->Number(entry + 8, 2).value_or(0);
    const bool is_short = reader->Number(entry + 2, 2) == kShortType;
    return is_short && said >= kUpright && said <= kOrientations ? said : kUpright;
  }
  return kUpright;
}

Picture TurnUpright(Picture picture, uint32_t orientation) {
  if (orientation == kUpright) {
    return picture;
  }
  const Walk walk = WalkOf(picture.size, orientation);
  Picture turned;
  turned.channels = picture.channels;
  turned.size = PictureHeader{.size = picture.size, .orientation = orientation}.upright();
  turned.pixels.resize(picture.pixels.size());
  uint8_t* out = turned.pixels.data();
  for (int64_t y = 0; y < turned.size.height; ++y) {
    int64_t at = walk.begin + y * walk.down;
    for (int64_t x = 0; x < turned.size.width; ++x) {
      const uint8_t* const pixel = picture.pixels.data() + at * picture.channels;
      for (uint32_t c = 0; c < picture.channels; ++c) {
        *out++ = pixel[c];
      }
      at += walk.right;
    }
  }
  return turned;
}

}  // namespace ps::worker
