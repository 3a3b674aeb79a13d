#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/status.h"

namespace ps::worker {

inline constexpr uint64_t kTextBytesMax = uint64_t{1} << 33;

/// Appends a file, plain or gzip. Errors: kNotFound, kIo; kCorruption with file and byte (damaged,
/// a byte that is not below `vocabulary`, longer in all than kTextBytesMax).
Status AppendText(const std::string& path, uint32_t vocabulary, std::vector<uint8_t>* text);

/// Every *.txt and *.txt.gz of the folder, in the order of their names. Errors: as AppendText;
/// kNotFound that says how to get a text when there is none.
Result<std::vector<uint8_t>> ReadText(const std::string& directory, uint32_t vocabulary);

}  // namespace ps::worker
