#include "worker/data/text/text_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "worker/data/data_file.h"
#include "worker/data/data_listing.h"
#include "worker/data/data_sum.h"
#include "worker/data/mapped_file.h"
#include "worker/data/npy/npy_file.h"
#include "worker/data/npy/npy_writer.h"
#include "worker/data/set_cache.h"
#include "worker/data/text/text_encoder.h"

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

bool IsPacked(const std::string& path) {
  return path.ends_with(".gz");
}

uint64_t BytesOf(const std::vector<std::string>& paths) {
  uint64_t bytes = 0;
  for (const std::string& path : paths) {
    bytes += StoredBytes(path);
  }
  return bytes;
}

constexpr std::string_view kTextEnd = ".txt";

Status NoTexts(const proto::DataConfig& config, const std::vector<std::string>& left_out) {
  std::string but = left_out.empty() ? "" : " but " + left_out.front();
  if (!config.validation.empty()) {
    but += " beside those of data.validation";
  }
  return Status::NotFound(fmt::format(
      "data.directory \"{0}\" has no .txt and no .txt.gz{1}; put a text there, for example by: "
      "apt-get install bible-kjv && bible -f gen1:1-rev22:21 > \"{0}/bible.txt\"",
      config.directory,
      but));
}

/// A part of the texts in a folder, and who named it: `named` is "data.validation" or "the part".
struct PartWanted {
  const std::string& directory;
  const std::string& name;
  std::string_view named;
};

/// Takes the texts of a part out of `all`, the texts in the folder: NAME.txt, or what is in the
/// folder NAME. No paths: there are none.
Result<DataListing> TakePart(const PartWanted& wanted, std::vector<std::string>* all) {
  namespace fs = std::filesystem;
  const std::string folder = (fs::path(wanted.directory) / wanted.name).string();
  const std::string file = wanted.name + std::string(kTextEnd);
  DataListing own;
  const auto is_own = [&](const std::string& path) {
    const std::string called = fs::path(path).filename().string();
    return called == file || called == file + ".gz";
  };
  std::ranges::copy_if(*all, std::back_inserter(own.paths), is_own);
  std::erase_if(*all, is_own);
  std::error_code ignored;  // what can't be looked at is an error when it is listed or read
  if (!fs::is_directory(folder, ignored)) {
    return own;
  }
  if (!own.paths.empty()) {
    return Status::InvalidArgument(fmt::format(
        "{} is \"{}\", and there are {} and a folder {}; allowed: one of them",
        wanted.named,
        wanted.name,
        own.paths.front(),
        folder));
  }
  return ListDataFiles(folder, "", kTextEnd);
}

/// By which the cache knows the texts of a part.
std::string PlaceOfPart(const std::string& directory, const std::string& name) {
  return Canonical((std::filesystem::path(directory) / name).string()) + " for validation";
}

/// Takes the texts that epochs are measured on out of all.
Status TakeValidation(const proto::DataConfig& config, TextParts* parts) {
  const std::string& name = config.validation;
  PS_ASSIGN(
      DataListing own, TakePart({config.directory, name, "data.validation"}, &parts->all.paths));
  for (const std::string& left_out : own.left_out) {
    parts->left_out.push_back(name + "/" + left_out);
  }
  parts->all.place = Canonical(config.directory) + " without " + name;
  parts->validation = {std::move(own.paths), PlaceOfPart(config.directory, name)};
  return !parts->validation.paths.empty()
             ? Status::Ok()
             : Status::NotFound(fmt::format(
                   "data.validation is \"{0}\", and data.directory \"{1}\" has no {0}.txt and no "
                   "folder {0} with texts; put the text that epochs are measured on there",
                   name,
                   config.directory));
}

constexpr const char* kTokensFile = "/tokens.npy";

/// Tokens as the cache has them.
template <typename Token>
Result<TokenRuns<Token>> OpenTokens(const std::string& folder) {
  PS_ASSIGN(NpyFile file, NpyFile::Open(folder + kTokensFile));
  if (ElementSize(file.type()) != sizeof(Token) || file.row_size() != 1) {
    return Status::Corruption(fmt::format("{}: byte 0: it has no tokens", file.path()));
  }
  file.Expect(MappedFile::Pattern::kPieces);
  auto kept = std::make_shared<const NpyFile>(std::move(file));
  const auto* const first = reinterpret_cast<const Token*>(kept->data().data());
  TokenRuns<Token> runs;
  const std::string path = kept->path();
  const size_t offset = kept->offset();
  const std::span<const Token> tokens(first, kept->rows());
  runs.Append(SharedArray<Token>(std::move(kept), tokens), path, offset);
  return runs;
}

/// Texts as `write` writes them, found or made; nothing where there is no cache that can be used.
/// Errors: those of `write` but kUnavailable; kCancelled.
template <typename Token>
Result<std::optional<TokenRuns<Token>>> FromCache(
    const proto::DataConfig& config,
    const std::string& what,
    const TextFiles& files,
    LoadProgress* progress,
    const std::function<Status(NpyWriter*)>& write,
    std::string* note) {
  const auto make = [&](const std::string& folder) -> Status {
    const ElementType type = sizeof(Token) == 1 ? ElementType::kU8 : ElementType::kU32;
    Result<NpyWriter> writer = NpyWriter::Create(folder + kTokensFile, type, 0);
    PS_TRY(OfCache(writer.status()));
    PS_TRY(write(&*writer));
    return OfCache(writer->Finish());
  };
  TokenRuns<Token> runs;
  const auto open = [&](const std::string& folder) -> Status {
    PS_ASSIGN(runs, OpenTokens<Token>(folder));
    return Status::Ok();
  };
  PS_ASSIGN(
      const bool is_kept,
      OpenOrMake(config, what + files.place, files.paths, progress, make, open, note));
  return is_kept ? std::optional(std::move(runs)) : std::optional<TokenRuns<Token>>();
}

/// Gives `sink` the tokens of every text.
Status EncodeTexts(
    const std::vector<std::string>& paths,
    const Bpe& bpe,
    LoadProgress* progress,
    const TokenSink& sink) {
  progress->Expect(BytesOf(paths));
  for (const std::string& path : paths) {
    if (!IsPacked(path)) {
      if (StoredBytes(path) > 0) {
        PS_ASSIGN(const MappedFile file, MappedFile::Open(path));
        const std::string_view text(
            reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
        PS_TRY(EncodeText(text, path, bpe, progress, sink));
      }
      continue;
    }
    std::vector<uint8_t> unpacked;
    PS_TRY(AppendText(path, kBytesVocabulary, &unpacked, progress));
    progress->Expect(unpacked.size());
    const std::string_view text(reinterpret_cast<const char*>(unpacked.data()), unpacked.size());
    PS_TRY(EncodeText(text, path, bpe, progress, sink));
  }
  return Status::Ok();
}

/// Plain files where they lie.
Result<TokenRuns<uint8_t>> MapTexts(const std::vector<std::string>& paths) {
  TokenRuns<uint8_t> runs;
  for (const std::string& path : paths) {
    if (StoredBytes(path) > 0) {
      PS_ASSIGN(MappedFile file, MappedFile::Open(path));
      file.Expect(MappedFile::Pattern::kPieces);
      auto kept = std::make_shared<const MappedFile>(std::move(file));
      const std::span<const uint8_t> bytes = kept->bytes();
      runs.Append(SharedArray<uint8_t>(std::move(kept), bytes), path);
    }
  }
  return runs;
}

/// Writes the bytes of texts, unpacked.
Status UnpackTexts(
    const std::vector<std::string>& paths,
    uint32_t vocabulary,
    LoadProgress* progress,
    NpyWriter* writer) {
  progress->Expect(BytesOf(paths));
  for (const std::string& path : paths) {
    std::vector<uint8_t> text;
    PS_TRY(AppendText(path, vocabulary, &text, progress));
    PS_TRY(OfCache(writer->Append(std::as_bytes(std::span(text)))));
  }
  return Status::Ok();
}

}  // namespace

Result<TextParts> ListTexts(const proto::DataConfig& config) {
  PS_ASSIGN(DataListing texts, ListDataFiles(config.directory, "", kTextEnd));
  TextParts parts;
  parts.all = {std::move(texts.paths), Canonical(config.directory)};
  parts.left_out = std::move(texts.left_out);
  if (!config.validation.empty()) {
    PS_TRY(TakeValidation(config, &parts));
  }
  return parts.all.paths.empty() ? Result<TextParts>(NoTexts(config, parts.left_out))
                                 : Result<TextParts>(std::move(parts));
}

Result<TextFiles> ListTextPart(const std::string& directory, const std::string& name) {
  PS_ASSIGN(DataListing texts, ListDataFiles(directory, "", kTextEnd));
  PS_ASSIGN(DataListing own, TakePart({directory, name, "the part"}, &texts.paths));
  if (own.paths.empty()) {
    return Status::NotFound(fmt::format(
        "{0} has no part \"{1}\": no {1}.txt, no {1}.txt.gz and no folder {1} with texts; allowed: "
        "a part that is there, or without one the tests",
        directory,
        name));
  }
  return TextFiles{std::move(own.paths), PlaceOfPart(directory, name)};
}

Result<Texts<uint8_t>> ReadText(
    const proto::DataConfig& config,
    const TextFiles& files,
    uint32_t vocabulary,
    LoadProgress* progress) {
  Texts<uint8_t> texts;
  if (std::ranges::none_of(files.paths, IsPacked)) {
    if (BytesOf(files.paths) > kReadInFullMax) {
      texts.is_checked = vocabulary == kBytesVocabulary;
      PS_ASSIGN(texts.tokens, MapTexts(files.paths));
      return texts;
    }
  } else {
    PS_ASSIGN(
        auto kept,
        FromCache<uint8_t>(
            config,
            fmt::format("bytes below {} of ", vocabulary),
            files,
            progress,
            [&](NpyWriter* writer) {
              return UnpackTexts(files.paths, vocabulary, progress, writer);
            },
            &texts.note));
    if (kept) {
      texts.tokens = std::move(*kept);
      texts.is_checked = vocabulary == kBytesVocabulary;
      return texts;
    }
  }
  progress->Expect(BytesOf(files.paths));
  std::vector<uint8_t> tokens;
  for (const std::string& path : files.paths) {
    PS_TRY(AppendText(path, vocabulary, &tokens, progress));
  }
  texts.tokens.Append(SharedArray<uint8_t>(std::move(tokens)));
  return texts;
}

Result<Texts<uint32_t>> ReadTokens(
    const proto::DataConfig& config,
    const TextFiles& files,
    const Bpe& bpe,
    LoadProgress* progress) {
  Texts<uint32_t> texts;
  PS_ASSIGN(
      auto kept,
      FromCache<uint32_t>(
          config,
          fmt::format("tokens of tokenizer {:08x} of {} of ", bpe.crc(), bpe.size()),
          files,
          progress,
          [&](NpyWriter* writer) {
            return EncodeTexts(files.paths, bpe, progress, [&](std::span<const uint32_t> tokens) {
              return OfCache(writer->Append(std::as_bytes(tokens)));
            });
          },
          &texts.note));
  if (kept) {
    texts.tokens = std::move(*kept);
    texts.is_checked = false;  // the file is one like others
    return texts;
  }
  std::vector<uint32_t> tokens;
  PS_TRY(EncodeTexts(files.paths, bpe, progress, [&](std::span<const uint32_t> more) {
    if ((tokens.size() + more.size()) * sizeof(uint32_t) > kTextBytesMax) {
      return Status::Corruption(fmt::format(
          "data.directory \"{}\": its tokens have more than {} bytes, and no cache can have them; "
          "give data.cache a folder with room",
          config.directory,
          kTextBytesMax));
    }
    tokens.insert(tokens.end(), more.begin(), more.end());
    return Status::Ok();
  }));
  texts.tokens.Append(SharedArray<uint32_t>(std::move(tokens)));
  return texts;
}

}  // namespace ps::worker
