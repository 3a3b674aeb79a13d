#include "worker/data/text_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "ps/base/utf8.h"
#include "worker/data/data_file.h"
#include "worker/data/data_listing.h"

namespace ps::worker {

Status AppendText(
    const std::string& path,
    uint32_t vocabulary,
    std::vector<uint8_t>* text,
    LoadProgress* progress) {
  constexpr size_t kPieceBytes = 1U << 16;
  PS_ASSIGN(DataFile file, DataFile::Open(path, progress));
  for (;;) {
    const size_t begin = text->size();
    const uint64_t file_begin = file.offset();
    text->resize(begin + kPieceBytes);
    PS_ASSIGN(const size_t got, file.ReadSome(std::span(*text).subspan(begin)));
    text->resize(begin + got);
    const auto beyond =
        std::find_if(text->begin() + static_cast<int64_t>(begin), text->end(), [&](uint8_t byte) {
          return byte >= vocabulary;
        });
    if (beyond != text->end()) {
      return file.Bad(
          file_begin + static_cast<uint64_t>(beyond - text->begin()) - begin,
          fmt::format(
              "token {} is beyond data.vocabulary {}; allowed is 0 to {}, or a larger vocabulary",
              *beyond,
              vocabulary,
              vocabulary - 1));
    }
    if (text->size() > kTextBytesMax) {
      return file.Bad(file_begin, fmt::format("more than {} bytes of text", kTextBytesMax));
    }
    if (got < kPieceBytes) {
      return Status::Ok();
    }
  }
}

namespace {

/// Every text of the folder. Each is gone over `passes` times.
Result<DataListing> TextsOf(const std::string& directory, uint64_t passes, LoadProgress* progress) {
  PS_ASSIGN(DataListing texts, ListDataFiles(directory, "", ".txt"));
  if (texts.paths.empty()) {
    return Status::NotFound(fmt::format(
        "data.directory \"{}\" has no .txt and no .txt.gz{}; put a text there, for example by: "
        "apt-get install bible-kjv && bible -f gen1:1-rev22:21 > \"{}/bible.txt\"",
        directory,
        texts.left_out.empty() ? "" : " but " + texts.left_out.front(),
        directory));
  }
  for (const std::string& path : texts.paths) {
    progress->Expect(passes * StoredBytes(path));
  }
  return texts;
}

Status CheckUtf8(std::string_view text, const std::string& path) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = Utf8Bytes(text.substr(at));
    if (bytes == 0) {
      return Status::Corruption(fmt::format(
          "{}: byte {}: {:#04x} is not UTF-8, which data.tokenizer takes; convert the file, for "
          "example by: iconv -f latin1 -t utf-8",
          path,
          at,
          static_cast<unsigned char>(text[at])));
    }
    at += bytes;
  }
  return Status::Ok();
}

}  // namespace

Result<Texts<uint8_t>> ReadText(
    const std::string& directory, uint32_t vocabulary, LoadProgress* progress) {
  PS_ASSIGN(DataListing files, TextsOf(directory, 1, progress));
  Texts<uint8_t> texts;
  for (const std::string& path : files.paths) {
    PS_TRY(AppendText(path, vocabulary, &texts.tokens, progress));
  }
  texts.left_out = std::move(files.left_out);
  return texts;
}

Result<Texts<uint32_t>> ReadTokens(const std::string& directory, Bpe* bpe, LoadProgress* progress) {
  PS_ASSIGN(DataListing files, TextsOf(directory, 2, progress));
  Texts<uint32_t> texts;
  uint64_t bytes = 0;
  for (const std::string& path : files.paths) {
    std::vector<uint8_t> file;
    PS_TRY(AppendText(path, kBytesVocabulary, &file, progress));
    bytes += file.size();
    if (bytes > kTextBytesMax) {
      return Status::Corruption(fmt::format(
          "{}: the texts up to here have {} bytes; allowed: {} in all",
          path,
          bytes,
          kTextBytesMax));
    }
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    PS_TRY(CheckUtf8(text, path));
    const uint64_t stored = StoredBytes(path);
    progress->Expect(file.size() - std::min<uint64_t>(stored, file.size()));  // if it was packed
    PS_TRY(bpe->Encode(text, &texts.tokens, progress));
  }
  texts.left_out = std::move(files.left_out);
  return texts;
}

}  // namespace ps::worker
