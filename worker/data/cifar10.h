#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ps/base/status.h"
#include "worker/data/images.h"

namespace ps::worker {

inline constexpr int64_t kCifar10Classes = 10;

/// Reads the binary version of CIFAR-10, plain or gzip: records of one label byte and 3 * 32 * 32
/// pixel bytes (red, green, blue planes, row by row), all files one after the other.
/// `limit` keeps the first so many samples, or all there are; 0 keeps all.
/// Errors: kNotFound, kIo, kCorruption with file and byte (truncated record, label above 9, empty
/// file).
Result<LabeledImages> ReadCifar10(std::span<const std::string> paths, uint64_t limit);

}  // namespace ps::worker
