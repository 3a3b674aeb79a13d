#include "worker/use/tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/utf8.h"
#include "ps/crypto/sha256.h"
#include "worker/data/text/text_files.h"

namespace ps::worker {
namespace {

constexpr size_t kTokenizerBytesMax = size_t{256} << 20;

Result<std::string> DigestOf(const std::string& path) {
  PS_ASSIGN(const std::string text, ReadFile(path, kTokenizerBytesMax));
  return crypto::HexOf(crypto::Sha256Of(std::as_bytes(std::span(text))));
}

/// The byte at which a text stops to be UTF-8; its size: nowhere.
size_t EndOfUtf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t n = Utf8Bytes(text.substr(at));
    if (n == 0) {
      return at;
    }
    at += n;
  }
  return at;
}

}  // namespace

Result<TokenizerDigest> DigestOfTokenizer(const std::string& folder) {
  TokenizerDigest digest;
  PS_ASSIGN(const Bpe bpe, Bpe::Load(folder));
  digest.tokens = bpe.size();
  PS_ASSIGN(digest.vocabulary, DigestOf(folder + "/vocab.json"));
  PS_ASSIGN(digest.merges, DigestOf(folder + "/merges.txt"));
  return digest;
}

Result<Tokens> Tokens::Of(const ModelCard& card) {
  if (card.data.format != proto::DatasetFormat::kText) {
    return Status::InvalidArgument("the model takes no text: its data are no text files");
  }
  Tokens tokens(static_cast<uint32_t>(card.input.vocabulary));
  const std::string& folder = card.data.tokenizer;
  if (folder.empty()) {
    return tokens;
  }
  PS_ASSIGN(const TokenizerDigest digest, DigestOfTokenizer(folder).Annotate("the tokenizer"));
  if (card.tokens > 0 &&
      (digest.vocabulary != card.vocabulary_sha256 || digest.merges != card.merges_sha256)) {
    return Status::InvalidArgument(fmt::format(
        "{} has another tokenizer than the one that the model has learnt by; allowed: vocab.json "
        "with SHA-256 {}, merges.txt with {}",
        folder,
        card.vocabulary_sha256,
        card.merges_sha256));
  }
  PS_ASSIGN(Bpe bpe, Bpe::Load(folder));
  tokens.bpe_.emplace(std::move(bpe));
  return tokens;
}

Result<std::vector<uint32_t>> Tokens::Encode(std::string_view text) {
  std::vector<uint32_t> tokens;
  if (bpe_) {
    if (const size_t end = EndOfUtf8(text); end < text.size()) {
      return Status::InvalidArgument(fmt::format("byte {}: no UTF-8", end));
    }
    bpe_->Encode(text, &tokens);
    return tokens;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte >= vocabulary_) {
      return Status::InvalidArgument(fmt::format(
          "byte {}: {} is none of the {} tokens that the model knows", i, byte, vocabulary_));
    }
    tokens.push_back(byte);
  }
  return tokens;
}

std::string Tokens::TextOf(uint32_t token) const {
  if (bpe_) {
    return token < bpe_->size() ? std::string(bpe_->BytesOf(token)) : "";
  }
  return token < kBytesVocabulary ? std::string(1, static_cast<char>(token)) : "";
}

}  // namespace ps::worker
