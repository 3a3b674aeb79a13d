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

/// Texts, in the order of their names.
struct TextFiles {
  std::vector<std::string> paths;
  std::string place;  // by which the cache knows them: "/data", "/data without val"
};

/// The texts of data.directory.
struct TextParts {
  TextFiles all;                      // for training and tests
  TextFiles validation;               // of data.validation: no paths without it
  std::vector<std::string> left_out;  // see DataListing
};

/// Every *.txt and *.txt.gz of the folder but those of data.validation: VALIDATION.txt, packed or
/// not, or the texts in a folder VALIDATION. Errors: as ListDataFiles; kNotFound that says how to
/// get a text when there is none, or that there is none for validation; kInvalidArgument, both a
/// file and a folder are.
Result<TextParts> ListTexts(const proto::DataConfig& config);

/// The texts of one part of a folder, as above, whatever else the folder has. Errors: as
/// ListDataFiles; kNotFound, there are none; kInvalidArgument, both a file and a folder are.
Result<TextFiles> ListTextPart(const std::string& directory, const std::string& name);

/// What some texts are together.
template <typename Token>
struct Texts {
  TokenRuns<Token> tokens;
  bool is_checked = true;  // all are known to be below the vocabulary
  std::string note;        // why they are in memory and not in the cache; or empty
};

/// Texts as bytes. Plain ones stay on the disk when they have more than kReadInFullMax bytes
/// together; packed ones are unpacked into the cache, or into memory without one. Errors: as
/// AppendText.
Result<Texts<uint8_t>> ReadText(
    const proto::DataConfig& config,
    const TextFiles& files,
    uint32_t vocabulary,
    LoadProgress* progress);

/// The same as tokens of `bpe`: each file's by themselves, one behind the other. They are made once
/// and kept in the cache, if there is one. Errors: the same; kCorruption with file and byte when a
/// file is not UTF-8.
Result<Texts<uint32_t>> ReadTokens(
    const proto::DataConfig& config,
    const TextFiles& files,
    const Bpe& bpe,
    LoadProgress* progress);

}  // namespace ps::worker
