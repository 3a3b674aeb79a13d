#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "worker/data/bpe.h"

namespace ps::worker {

inline constexpr uint64_t kTextBytesMax = uint64_t{1} << 33;
inline constexpr uint32_t kBytesVocabulary = 256;

/// Appends a file, plain or gzip. Errors: kNotFound, kIo; kCorruption with file and byte (damaged,
/// a byte that is not below `vocabulary`, longer in all than kTextBytesMax); kCancelled by
/// `progress`, if any.
Status AppendText(
    const std::string& path,
    uint32_t vocabulary,
    std::vector<uint8_t>* text,
    LoadProgress* progress = nullptr);

/// What the texts of a folder are together.
template <typename Token>
struct Texts {
  std::vector<Token> tokens;
  std::vector<std::string> left_out;  // see DataListing
};

/// Every *.txt and *.txt.gz of the folder as bytes, in the order of their names. Errors: as
/// AppendText and ListDataFiles; kNotFound that says how to get a text when there is none.
Result<Texts<uint8_t>> ReadText(
    const std::string& directory, uint32_t vocabulary, LoadProgress* progress);

/// The same as tokens of `bpe`: each file's by themselves, one behind the other. Errors: the same;
/// kCorruption with file and byte when a file is not UTF-8.
Result<Texts<uint32_t>> ReadTokens(const std::string& directory, Bpe* bpe, LoadProgress* progress);

}  // namespace ps::worker
