#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "worker/data/load_progress.h"
#include "worker/model/model.h"

namespace ps::worker {

/// Classified images as a file holds them.
struct LabeledImages {
  Shape shape;
  std::vector<uint8_t> pixels;  // [n, c, h, w]
  std::vector<uint8_t> labels;  // [n]

  uint64_t count() const { return labels.size(); }
};

/// What is known of a file pair without reading its pixels.
struct ImageSetInfo {
  Shape shape;
  uint64_t count = 0;
};

// Limits that are checked before memory is taken.
inline constexpr int64_t kImageSideMax = 4096;
inline constexpr uint64_t kImageCountMax = uint64_t{1} << 28;
inline constexpr uint64_t kPixelBytesMax = uint64_t{1} << 33;

/// Reads IDX files of bytes (MNIST, Fashion-MNIST), plain or gzip:
///   images  u32 0x00000803, u32 count, u32 rows, u32 columns, then count * rows * columns bytes
///   labels  u32 0x00000801, u32 count, then count bytes          (all u32 big-endian)
/// `limit` keeps the first so many samples, or all there are; 0 keeps all. The whole label file is
/// read either way. Errors: kNotFound, kIo, kCorruption with file and byte (wrong magic, sizes
/// beyond the limits, truncated, bytes left over, no samples, counts that differ), kCancelled by
/// `progress`, if any.
Result<LabeledImages> ReadIdx(
    const std::string& images_path,
    const std::string& labels_path,
    uint64_t limit,
    LoadProgress* progress = nullptr);

/// The headers alone.
Result<ImageSetInfo> InspectIdx(const std::string& images_path);
Result<std::vector<uint8_t>> ReadIdxLabels(const std::string& labels_path);

/// Which of the two CIFAR sets.
struct CifarKind {
  int64_t classes;
  size_t label_bytes;  // the last one is taken
};

inline constexpr CifarKind kCifar10 = {.classes = 10, .label_bytes = 1};
/// The coarse label, of 20, is checked and passed over.
inline constexpr CifarKind kCifar100 = {.classes = 100, .label_bytes = 2};

/// Reads the binary version of CIFAR, plain or gzip: records of one label byte (CIFAR-100: two) and
/// 3 * 32 * 32 pixel bytes (red, green, blue planes, row by row), all files one after the other.
/// `limit` keeps the first so many samples, or all there are; 0 keeps all.
/// Errors: kNotFound, kIo, kCorruption with file and byte (truncated record, label out of range,
/// empty file), kCancelled by `progress`, if any.
Result<LabeledImages> ReadCifar(
    const CifarKind& kind,
    std::span<const std::string> paths,
    uint64_t limit,
    LoadProgress* progress = nullptr);

}  // namespace ps::worker
