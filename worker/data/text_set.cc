#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ps/base/crc32c.h"
#include "ps/base/random.h"
#include "worker/data/bpe.h"
#include "worker/data/samples.h"
#include "worker/data/text_files.h"

namespace ps::worker {
namespace {

constexpr uint32_t kContext = 128;

// What becomes of a token that is to be learnt (Devlin et al. 2018, section 3.1).
constexpr double kShownAsMask = 0.8;
constexpr double kShownAsOther = 0.1;

/// Windows of `context` tokens, one behind the other. Each token's label is the token after it, or,
/// where tokens are hidden, itself. A Token is what they are stored as.
template <typename Token>
class TextSamples final : public Samples {
 public:
  /// `hidden` tokens of each window; the token that hides them is `vocabulary`.
  TextSamples(std::vector<Token> tokens, size_t context, size_t hidden, uint32_t vocabulary)
      : tokens_(std::move(tokens)), context_(context), hidden_(hidden), vocabulary_(vocabulary) {}

  void Read(uint64_t sample, uint64_t draw, std::span<float> input, std::span<uint32_t> labels)
      const override {
    const Token* window = tokens_.data() + sample * context_;
    std::copy_n(window, context_, input.begin());
    if (hidden_ == 0) {
      std::copy_n(window + 1, context_, labels.begin());
      return;
    }
    std::fill(labels.begin(), labels.end(), kNoLabel);
    Random random(draw);
    for (size_t i = 0; i < hidden_; ++i) {
      uint64_t at = random.Below(context_);
      while (labels[at] != kNoLabel) {  // fewer than all are hidden
        at = (at + 1) % context_;
      }
      labels[at] = window[at];
      const double fate = random.Unit();
      if (fate < kShownAsMask) {
        input[at] = static_cast<float>(vocabulary_);
      } else if (fate < kShownAsMask + kShownAsOther) {
        input[at] = static_cast<float>(random.Below(vocabulary_));
      }
    }
  }

 private:
  const std::vector<Token> tokens_;
  const size_t context_;
  const size_t hidden_;
  const uint32_t vocabulary_;
};

/// How many windows `size` tokens have; with a label behind the last token of each.
uint64_t WindowsOf(uint64_t size, uint64_t context, bool is_masked) {
  const uint64_t last = is_masked ? 0 : 1;
  return size <= last ? 0 : (size - last) / context;
}

/// The set that some tokens are. All are below `vocabulary`.
template <typename Token>
Result<LoadedData> Cut(const proto::DataConfig& config, uint32_t vocabulary, Texts<Token> texts) {
  std::vector<Token> train = std::move(texts.tokens);
  const uint32_t context = config.context == 0 ? kContext : config.context;
  const bool is_masked = config.mask > 0;
  const auto test_tokens = static_cast<size_t>(
      static_cast<double>(config.test_share) * static_cast<double>(train.size()));
  const auto split = train.end() - static_cast<int64_t>(test_tokens);
  std::vector<Token> test(split, train.end());
  train.erase(split, train.end());
  const uint64_t train_windows = WindowsOf(train.size(), context, is_masked);
  const uint64_t test_windows = WindowsOf(test.size(), context, is_masked);
  if (train_windows == 0 || test_windows == 0) {
    return Status::InvalidArgument(fmt::format(
        "data.context is {}; allowed: less than the {} tokens of text for training and the {} for "
        "tests that data.directory has, of which data.test_share says how they are divided",
        context,
        train.size(),
        test.size()));
  }
  LoadedData loaded;
  loaded.info.shape = {1, context, 1, ShapeKind::kTokens, vocabulary + (is_masked ? 1 : 0)};
  loaded.info.classes = loaded.info.shape.vocabulary;
  loaded.info.labels = context;
  loaded.info.left_out = std::move(texts.left_out);
  PS_TRY(ApplyLimits(config, train_windows, test_windows, &loaded.info));
  loaded.fingerprint = FingerprintOf(loaded.info);
  const auto crc = [&](const std::vector<Token>& tokens, uint64_t windows) {
    const size_t used = windows * context + (is_masked ? 0 : 1);
    return Crc32c(std::as_bytes(std::span(tokens).first(used)));
  };
  loaded.fingerprint.train_images_crc = crc(train, loaded.info.train_count);
  loaded.fingerprint.test_images_crc = crc(test, loaded.info.test_count);
  const auto wanted = static_cast<size_t>(std::lround(config.mask * static_cast<float>(context)));
  const size_t hidden = is_masked ? std::clamp<size_t>(wanted, 1, context) : 0;
  using TokenSamples = TextSamples<Token>;
  loaded.train = std::make_unique<TokenSamples>(std::move(train), context, hidden, vocabulary);
  loaded.test = std::make_unique<TokenSamples>(std::move(test), context, hidden, vocabulary);
  return loaded;
}

/// Tokens of data.tokenizer.
Result<LoadedData> LoadTokens(const proto::DataConfig& config, LoadProgress* progress) {
  Result<Bpe> bpe = Bpe::Load(config.tokenizer);
  if (!bpe.ok()) {
    return Status(
        bpe.status().code(),
        fmt::format(
            "data.tokenizer \"{}\" cannot be used: {}", config.tokenizer, bpe.status().message()));
  }
  const uint32_t vocabulary = config.vocabulary == 0 ? bpe->size() : config.vocabulary;
  if (vocabulary < bpe->size()) {
    return Status::InvalidArgument(fmt::format(
        "data.vocabulary is {}; allowed: from {}, the tokens that data.tokenizer has, or 0 for as "
        "many",
        vocabulary,
        bpe->size()));
  }
  PS_ASSIGN(Texts<uint32_t> texts, ReadTokens(config.directory, &*bpe, progress));
  PS_ASSIGN(LoadedData loaded, Cut(config, vocabulary, std::move(texts)));
  // What the labels mean: equal tokens of another tokenizer are another text.
  loaded.fingerprint.train_labels_crc = bpe->crc();
  loaded.fingerprint.test_labels_crc = bpe->crc();
  return loaded;
}

}  // namespace

Result<LoadedData> LoadText(const proto::DataConfig& config, LoadProgress* progress) {
  if (!config.tokenizer.empty()) {
    return LoadTokens(config, progress);
  }
  const uint32_t vocabulary = config.vocabulary == 0 ? kBytesVocabulary : config.vocabulary;
  PS_ASSIGN(Texts<uint8_t> texts, ReadText(config.directory, vocabulary, progress));
  return Cut(config, vocabulary, std::move(texts));
}

}  // namespace ps::worker
