#include "worker/data/text/bpe.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "ps/base/crc32c.h"
#include "ps/base/file.h"
#include "ps/base/utf8.h"
#include "ps/json/json_value.h"
#include "worker/data/text/pretokens.h"

namespace ps::worker {
namespace {

constexpr size_t kFileBytesMax = size_t{64} << 20;
constexpr size_t kSeenMax = size_t{1} << 18;
constexpr size_t kToldBytes = size_t{1} << 20;  // of a text, between two words on progress
constexpr size_t kSeenBytesMax = 64;            // of a piece that is kept
constexpr uint32_t kNone = ~uint32_t{0};
constexpr char32_t kFirstMoved = 0x100;  // what spells the first byte that is not printable

/// Which byte each character below 0x180 spells: GPT-2's bytes_to_unicode, the other way round.
std::array<int, 0x180> MakeAlphabet() {
  std::array<int, 0x180> bytes{};
  bytes.fill(-1);
  char32_t moved = kFirstMoved;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    bytes[is_printable ? static_cast<char32_t>(byte) : moved++] = byte;
  }
  return bytes;
}

/// The bytes of a token as the files spell it; nothing when they spell none so.
std::optional<std::string> Unspelled(std::string_view text) {
  static const std::array<int, 0x180> alphabet = MakeAlphabet();
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const size_t n = Utf8Bytes(text.substr(at));
    if (n == 0 || n > 2) {
      return std::nullopt;
    }
    const auto lead = static_cast<unsigned char>(text[at]);
    const char32_t code =
        n == 1 ? lead : ((lead & 0x1fU) << 6) | (static_cast<unsigned char>(text[at + 1]) & 0x3fU);
    if (code >= alphabet.size() || alphabet[code] < 0) {
      return std::nullopt;
    }
    bytes += static_cast<char>(alphabet[code]);
    at += n;
  }
  return bytes.empty() ? std::nullopt : std::optional(std::move(bytes));
}

uint64_t PairOf(uint32_t left, uint32_t right) {
  return (uint64_t{left} << 32) | right;
}

template <typename T>
uint32_t Extend(uint32_t crc, const T& values) {
  return Crc32c(std::as_bytes(std::span(values)), crc);
}

Status NoToken(std::string_view spelled) {
  return Status::InvalidArgument(fmt::format(
      "{} is no token of vocab.json; allowed: two tokens that make a third, of the same tokenizer",
      Quoted(spelled)));
}

}  // namespace

Result<Bpe> Bpe::Load(const std::string& directory) {
  const std::string vocabulary_path = directory + "/vocab.json";
  const std::string merges_path = directory + "/merges.txt";
  PS_ASSIGN(const std::string vocabulary, ReadFile(vocabulary_path, kFileBytesMax));
  PS_ASSIGN(const std::string merges, ReadFile(merges_path, kFileBytesMax));
  return Parse(vocabulary, vocabulary_path, merges, merges_path);
}

Result<Bpe> Bpe::Parse(
    std::string_view vocabulary,
    const std::string& vocabulary_name,
    std::string_view merges,
    const std::string& merges_name) {
  Bpe bpe;
  PS_TRY(bpe.AddVocabulary(vocabulary, vocabulary_name));
  PS_TRY(bpe.AddMerges(merges, merges_name));
  return bpe;
}

Status Bpe::AddVocabulary(std::string_view text, const std::string& name) {
  PS_ASSIGN(const JsonValue root, ParseJson(text, name));
  const size_t count = root.children.size();
  if (root.kind != JsonValue::Kind::kObject || count == 0 || count > kTokensMax) {
    return ErrorAt(
        name,
        root.place,
        fmt::format(
            "{} of {} entries; allowed: an object of 1 to {} tokens with their numbers",
            KindName(root.kind),
            count,
            kTokensMax));
  }
  tokens_.resize(count);
  for (const JsonValue& entry : root.children) {
    const std::optional<std::string> bytes = Unspelled(entry.key);
    if (!bytes) {
      return ErrorAt(
          name,
          entry.key_place,
          fmt::format(
              "{} spells no bytes as GPT-2 does; allowed: a byte-level vocabulary, where a space "
              "is "
              "\xc4\xa0",
              Quoted(entry.key)));
    }
    size_t number = count;
    const char* const end = entry.text.data() + entry.text.size();
    const std::from_chars_result read = std::from_chars(entry.text.data(), end, number);
    const bool is_whole = entry.kind == JsonValue::Kind::kNumber && read.ec == std::errc() &&
                          read.ptr == end && number < count;
    if (!is_whole || !tokens_[number].empty()) {
      return ErrorAt(
          name,
          entry.place,
          fmt::format(
              "the number of {} is {}{}; allowed: 0 to {}, each once, since there are {} tokens",
              Quoted(entry.key),
              entry.text.empty() ? KindName(entry.kind) : std::string_view(entry.text),
              is_whole ? " again" : "",
              count - 1,
              count));
    }
    tokens_[number] = *bytes;
    numbers_.emplace(*bytes, static_cast<uint32_t>(number));
  }
  for (size_t byte = 0; byte < of_byte_.size(); ++byte) {
    const auto found = numbers_.find(std::string(1, static_cast<char>(byte)));
    if (found == numbers_.end()) {
      return ErrorAt(
          name,
          root.place,
          fmt::format(
              "byte {} has no token; allowed: one for each of the 256 bytes, as GPT-2 has", byte));
    }
    of_byte_[byte] = found->second;
  }
  for (const std::string& token : tokens_) {
    crc_ = Extend(Extend(crc_, std::array{static_cast<uint32_t>(token.size())}), token);
  }
  return Status::Ok();
}

Status Bpe::AddMerges(std::string_view text, const std::string& name) {
  for (size_t line_number = 1; !text.empty(); ++line_number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) {
      continue;
    }
    if (const Status added = AddMerge(line); !added.ok()) {
      return Status::InvalidArgument(fmt::format("{}:{}: {}", name, line_number, added.message()));
    }
  }
  return Status::Ok();
}

Status Bpe::AddMerge(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    return Status::InvalidArgument(
        fmt::format("{} is no merge; allowed: two tokens, a space between", Quoted(line)));
  }
  std::array<uint32_t, 2> pair{};
  std::string merged;
  for (size_t i = 0; i < pair.size(); ++i) {
    const std::string_view spelled = i == 0 ? line.substr(0, space) : line.substr(space + 1);
    const std::optional<std::string> bytes = Unspelled(spelled);
    const auto found = bytes ? numbers_.find(*bytes) : numbers_.end();
    if (found == numbers_.end()) {
      return NoToken(spelled);
    }
    pair[i] = found->second;
    merged += *bytes;
  }
  const auto token = numbers_.find(merged);
  if (token == numbers_.end()) {
    return NoToken(std::string(line.substr(0, space)).append(line.substr(space + 1)));
  }
  const Merge merge{static_cast<uint32_t>(merges_.size()), token->second};
  if (!merges_.emplace(PairOf(pair[0], pair[1]), merge).second) {
    return Status::InvalidArgument(
        fmt::format("{} is there before; allowed: each merge once", Quoted(line)));
  }
  crc_ = Extend(crc_, pair);
  return Status::Ok();
}

void Bpe::Encode(std::string_view text, std::vector<uint32_t>* tokens) {
  LoadProgress unasked;
  Encode(text, tokens, &unasked).Ignore("nobody cancels it");
}

Status Bpe::Encode(std::string_view text, std::vector<uint32_t>* tokens, LoadProgress* progress) {
  size_t untold = 0;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, PretokenBytes(text));
    text.remove_prefix(piece.size());
    untold += piece.size();
    if (untold >= kToldBytes || text.empty()) {
      PS_TRY(progress->Advance(std::exchange(untold, 0)));
    }
    if (const auto found = seen_.find(piece); found != seen_.end()) {
      tokens->insert(tokens->end(), found->second.begin(), found->second.end());
      continue;
    }
    const auto begin = static_cast<int64_t>(tokens->size());
    EncodePiece(piece, tokens);
    if (piece.size() <= kSeenBytesMax && seen_.size() < kSeenMax) {
      seen_.emplace(piece, std::vector<uint32_t>(tokens->begin() + begin, tokens->end()));
    }
  }
  return Status::Ok();
}

void Bpe::EncodePiece(std::string_view piece, std::vector<uint32_t>* tokens) {
  const auto count = static_cast<uint32_t>(piece.size());
  links_.resize(count);
  candidates_.clear();
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t token = of_byte_[static_cast<unsigned char>(piece[i])];
    links_[i] = {token, i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  }
  for (uint32_t i = 0; i < count; ++i) {
    Consider(i);
  }
  while (!candidates_.empty()) {
    std::ranges::pop_heap(candidates_, std::ranges::greater());
    const Candidate best = candidates_.back();
    candidates_.pop_back();
    Link& link = links_[best.at];
    const Merge* const merge = MergeOf(link);
    if (merge == nullptr || merge->rank != best.rank) {
      continue;  // one of the two was merged meanwhile
    }
    Link& gone = links_[link.behind];
    link.token = merge->token;
    link.behind = gone.behind;
    gone = {kNone, kNone, kNone};
    if (link.behind != kNone) {
      links_[link.behind].before = best.at;
      Consider(best.at);
    }
    if (link.before != kNone) {
      Consider(link.before);
    }
  }
  for (uint32_t i = 0; i != kNone; i = links_[i].behind) {  // the first is never merged away
    tokens->push_back(links_[i].token);
  }
}

void Bpe::Consider(uint32_t at) {
  if (const Merge* const merge = MergeOf(links_[at])) {
    candidates_.push_back({merge->rank, at});
    std::ranges::push_heap(candidates_, std::ranges::greater());
  }
}

const Bpe::Merge* Bpe::MergeOf(const Link& link) const {
  if (link.behind == kNone) {
    return nullptr;
  }
  const auto found = merges_.find(PairOf(link.token, links_[link.behind].token));
  return found == merges_.end() ? nullptr : &found->second;
}

}  // namespace ps::worker
