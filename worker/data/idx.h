#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "worker/data/images.h"

namespace ps::worker {

/// Reads IDX files of bytes (MNIST, Fashion-MNIST), plain or gzip:
///   images  u32 0x00000803, u32 count, u32 rows, u32 columns, then count * rows * columns bytes
///   labels  u32 0x00000801, u32 count, then count bytes          (all u32 big-endian)
/// `limit` keeps the first so many samples, or all there are; 0 keeps all. The whole label file is
/// read either way. Errors: kNotFound, kIo, kCorruption with file and byte (wrong magic, sizes
/// beyond the limits, truncated, bytes left over, no samples, counts that differ).
Result<LabeledImages> ReadIdx(
    const std::string& images_path, const std::string& labels_path, uint64_t limit);

/// The headers alone.
Result<ImageSetInfo> InspectIdx(const std::string& images_path);
Result<std::vector<uint8_t>> ReadIdxLabels(const std::string& labels_path);

}  // namespace ps::worker
