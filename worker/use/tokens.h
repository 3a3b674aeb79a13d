#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"
#include "worker/data/text/bpe.h"
#include "worker/use/model_card.h"

namespace ps::worker {

/// A text as the tokens that a model has learnt, and back: bytes, or those of its tokenizer.
class Tokens {
 public:
  /// Reads the tokenizer that data.tokenizer of the card names. Errors: kInvalidArgument, the model
  /// takes no text, or another tokenizer lies there now; as Bpe::Load.
  static Result<Tokens> Of(const ModelCard& card);

  /// Errors: kInvalidArgument, a byte that is no token of the model; a text that is no UTF-8.
  Result<std::vector<uint32_t>> Encode(std::string_view text);

  /// The bytes of a token; empty for one that stands for none, as a model may have more than the
  /// tokenizer.
  std::string TextOf(uint32_t token) const;

 private:
  explicit Tokens(uint32_t vocabulary) : vocabulary_(vocabulary) {}

  const uint32_t vocabulary_;
  std::optional<Bpe> bpe_;  // nothing: bytes
};

/// SHA-256 of both files of a tokenizer's folder, 64 hex digits each, and how many tokens it has.
struct TokenizerDigest {
  uint32_t tokens = 0;
  std::string vocabulary;
  std::string merges;
};

/// Errors: as Bpe::Load and ReadFile.
Result<TokenizerDigest> DigestOfTokenizer(const std::string& folder);

}  // namespace ps::worker
