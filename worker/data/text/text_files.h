#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "worker/data/text/bpe.h"
#include "worker/data/text/token_runs.h"

namespace ps::worker {

/// What fits in memory.
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
  TokenRuns<Token> tokens;
  bool is_checked = true;             // all are known to be below the vocabulary
  std::vector<std::string> left_out;  // see DataListing
  std::string note;                   // why they are in memory and not in the cache; or empty
};

/// Every *.txt and *.txt.gz of the folder as bytes, in the order of their names. Plain ones stay on
/// the disk when they have more than kReadInFullMax bytes together; packed ones are unpacked into
/// the cache, or into memory without one. Errors: as AppendText and ListDataFiles; kNotFound that
/// says how to get a text when there is none.
Result<Texts<uint8_t>> ReadText(
    const proto::DataConfig& config, uint32_t vocabulary, LoadProgress* progress);

/// The same as tokens of `bpe`: each file's by themselves, one behind the other. They are made once
/// and kept in the cache, if there is one. Errors: the same; kCorruption with file and byte when a
/// file is not UTF-8.
Result<Texts<uint32_t>> ReadTokens(
    const proto::DataConfig& config, const Bpe& bpe, LoadProgress* progress);

}  // namespace ps::worker
