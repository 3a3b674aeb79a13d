#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ps/base/status.h"
#include "worker/data/load_progress.h"

namespace ps::worker {

/// Byte pair encoding of bytes, as GPT-2 does it. A text is cut into pieces (pretokens.h). The
/// bytes of a piece are tokens at first; as long as some pair of neighbours can be merged, the pair
/// of the lowest rank is, the leftmost first.
///
/// Files, in GPT-2's spelling, where each byte is a printable character: itself, or U+0100 and up.
///   vocab.json  {"TOKEN": NUMBER, ...}: numbers from 0 without gaps, each of the 256 bytes
///   merges.txt  a line "LEFT RIGHT" for each merge, in order of rank; a first line that begins
///   with
///               #version is none
/// A name in angle brackets, as <|endoftext|>, is a token that no text has.
/// Thread: one at a time.
class Bpe {
 public:
  static constexpr size_t kTokensMax = size_t{1} << 20;

  /// Reads the two files of a folder. Errors: kNotFound, kIo; kInvalidArgument with file, place and
  /// remedy.
  static Result<Bpe> Load(const std::string& directory);
  /// The same of their contents. The names are for errors.
  static Result<Bpe> Parse(
      std::string_view vocabulary,
      const std::string& vocabulary_name,
      std::string_view merges,
      const std::string& merges_name);

  /// Appends the tokens of a text, all below size(). Requires: UTF-8.
  /// Cost: a look-up for a piece that was seen before; else n log n of its n bytes.
  void Encode(std::string_view text, std::vector<uint32_t>* tokens);
  /// The same, and tells `progress` of the text's bytes. Errors: kCancelled.
  Status Encode(std::string_view text, std::vector<uint32_t>* tokens, LoadProgress* progress);

  /// The bytes that a token stands for. Requires: token < size().
  std::string_view BytesOf(uint32_t token) const { return tokens_[token]; }

  uint32_t size() const { return static_cast<uint32_t>(tokens_.size()); }

  /// A checksum of all tokens and merges: two of the same encode alike.
  uint32_t crc() const { return crc_; }

 private:
  struct Merge {
    uint32_t rank;
    uint32_t token;
  };

  /// A token of the piece at hand, with its neighbours.
  struct Link {
    uint32_t token;
    uint32_t before;
    uint32_t behind;
  };

  /// A pair that can be merged, or could before a neighbour was. The first merges first.
  struct Candidate {
    uint32_t rank;
    uint32_t at;

    auto operator<=>(const Candidate&) const = default;
  };

  struct TextHash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name

    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  template <typename T>
  using ByText = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

  Bpe() = default;

  Status AddVocabulary(std::string_view text, const std::string& name);
  Status AddMerges(std::string_view text, const std::string& name);
  Status AddMerge(std::string_view line);
  void EncodePiece(std::string_view piece, std::vector<uint32_t>* tokens);
  /// Adds the pair that begins at a link, if there is one.
  void Consider(uint32_t at);
  const Merge* MergeOf(const Link& link) const;

  std::vector<std::string> tokens_;  // bytes of each
  ByText<uint32_t> numbers_;         // of those
  std::array<uint32_t, 256> of_byte_{};
  std::unordered_map<uint64_t, Merge> merges_;  // by left and right
  uint32_t crc_ = 0;

  ByText<std::vector<uint32_t>> seen_;  // pieces encoded before, as many as fit
  std::vector<Link> links_;
  std::vector<Candidate> candidates_;  // a heap
};

}  // namespace ps::worker
