#include "worker/data/text_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "worker/data/data_file.h"

namespace ps::worker {

namespace fs = std::filesystem;

Status AppendText(const std::string& path, uint32_t vocabulary, std::vector<uint8_t>* text) {
  constexpr size_t kPieceBytes = 1U << 16;
  PS_ASSIGN(DataFile file, DataFile::Open(path));
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

Result<std::vector<uint8_t>> ReadText(const std::string& directory, uint32_t vocabulary) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(directory, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string path = it->path().string();
    if (path.ends_with(".txt") || path.ends_with(".txt.gz")) {
      paths.push_back(path);
    }
  }
  if (error) {
    return Status::Io(
        fmt::format("data.directory \"{}\" cannot be listed: {}", directory, error.message()));
  }
  if (paths.empty()) {
    return Status::NotFound(fmt::format(
        "data.directory \"{}\" has no .txt and no .txt.gz; put a text there, for example by: "
        "apt-get install bible-kjv && bible -f gen1:1-rev22:21 > \"{}/bible.txt\"",
        directory,
        directory));
  }
  std::sort(paths.begin(), paths.end());
  std::vector<uint8_t> text;
  for (const std::string& path : paths) {
    PS_TRY(AppendText(path, vocabulary, &text));
  }
  return text;
}

}  // namespace ps::worker
