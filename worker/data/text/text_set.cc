#include "worker/data/text/text_set.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/random.h"
#include "worker/data/data_sum.h"
#include "worker/data/text/bpe.h"
#include "worker/data/text/text_files.h"
#include "worker/data/validation.h"

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
  struct Options {
    size_t context = 0;
    size_t hidden = 0;        // tokens of each window
    uint32_t vocabulary = 0;  // tokens are below it; itself is the one that hides others
    bool is_checked = true;   // that they are below it is known
  };

  /// The windows begin at token `first`.
  TextSamples(
      std::shared_ptr<const TokenRuns<Token>> tokens, uint64_t first, const Options& options)
      : tokens_(std::move(tokens)), first_(first), options_(options) {}

  Status Read(uint64_t sample, uint64_t draw, std::span<float> input, std::span<uint32_t> labels)
      const override {
    const uint64_t begin = first_ + sample * options_.context;
    tokens_->Copy(begin, input);
    if (options_.hidden > 0) {
      PS_TRY(Check(begin, input));
      Hide(draw, input, labels);
      return Status::Ok();
    }
    tokens_->Copy(begin + 1, labels);
    PS_TRY(Check(begin, input));
    return Check(begin + 1, labels);
  }

 private:
  void Hide(uint64_t draw, std::span<float> input, std::span<uint32_t> labels) const {
    std::ranges::fill(labels, kNoLabel);
    Random random(draw);
    for (size_t i = 0; i < options_.hidden; ++i) {
      uint64_t at = random.Below(options_.context);
      while (labels[at] != kNoLabel) {  // fewer than all are hidden
        at = (at + 1) % options_.context;
      }
      labels[at] = static_cast<uint32_t>(input[at]);
      const double fate = random.Unit();
      if (fate < kShownAsMask) {
        input[at] = static_cast<float>(options_.vocabulary);
      } else if (fate < kShownAsMask + kShownAsOther) {
        input[at] = static_cast<float>(random.Below(options_.vocabulary));
      }
    }
  }

  /// `window`: the tokens from `begin` on.
  template <typename T>
  Status Check(uint64_t begin, std::span<const T> window) const {
    if (options_.is_checked) {
      return Status::Ok();
    }
    const auto wrong = std::ranges::find_if(
        window, [this](T token) { return token >= static_cast<T>(options_.vocabulary); });
    if (wrong == window.end()) {
      return Status::Ok();
    }
    const TokenPlace place =
        tokens_->PlaceOf(begin + static_cast<uint64_t>(wrong - window.begin()));
    return Status::Corruption(fmt::format(
        "{}: byte {}: token {} is beyond data.vocabulary {}; allowed is 0 to {}, or a larger "
        "vocabulary",
        place.file,
        place.byte,
        *wrong,
        options_.vocabulary,
        options_.vocabulary - 1));
  }

  template <typename T>
  Status Check(uint64_t begin, std::span<T> window) const {
    return Check(begin, std::span<const T>(window));
  }

  const std::shared_ptr<const TokenRuns<Token>> tokens_;
  const uint64_t first_;
  const Options options_;
};

/// How many windows `size` tokens have; with a label behind the last token of each.
uint64_t WindowsOf(uint64_t size, uint64_t context, bool is_masked) {
  const uint64_t last = is_masked ? 0 : 1;
  return size <= last ? 0 : (size - last) / context;
}

uint32_t ContextOf(const proto::DataConfig& config) {
  return config.context == 0 ? kContext : config.context;
}

uint32_t VocabularyOf(const proto::DataConfig& config, uint32_t usual) {
  return config.vocabulary == 0 ? usual : config.vocabulary;
}

Shape WindowShape(const proto::DataConfig& config, uint32_t vocabulary) {
  const uint32_t hiding = config.mask > 0 ? 1 : 0;  // the token that hides others
  return {1, ContextOf(config), 1, ShapeKind::kTokens, vocabulary + hiding};
}

template <typename Token>
typename TextSamples<Token>::Options OptionsOf(
    const proto::DataConfig& config, uint32_t vocabulary, bool is_checked) {
  const uint32_t context = ContextOf(config);
  const auto wanted = static_cast<size_t>(std::lround(config.mask * static_cast<float>(context)));
  typename TextSamples<Token>::Options options;
  options.context = context;
  options.hidden = config.mask > 0 ? std::clamp<size_t>(wanted, 1, context) : 0;
  options.vocabulary = vocabulary;
  options.is_checked = is_checked;
  return options;
}

/// The windows of a part. `named`: who named it, in an error.
Result<uint64_t> WindowsOfPart(
    const proto::DataConfig& config,
    std::string_view named,
    const std::string& part,
    uint64_t tokens) {
  const uint64_t windows = WindowsOf(tokens, ContextOf(config), config.mask > 0);
  if (windows == 0) {
    return Status::InvalidArgument(fmt::format(
        "data.context is {}; allowed: less than the {} tokens that the text of {} \"{}\" has",
        ContextOf(config),
        tokens,
        named,
        part));
  }
  return windows;
}

/// Why texts are in memory, of several that were read.
std::string Joined(const std::string& note, const std::string& other) {
  return note.empty() || note == other ? other : other.empty() ? note : note + "; " + other;
}

/// The tokens of a folder's texts.
template <typename Token>
struct ReadParts {
  Texts<Token> all;
  Texts<Token> validation;
  std::vector<std::string> left_out;
};

/// `read`: the texts of some files, or an error.
template <typename Token, typename Read>
Result<ReadParts<Token>> ReadAll(const proto::DataConfig& config, const Read& read) {
  PS_ASSIGN(TextParts files, ListTexts(config));
  ReadParts<Token> parts;
  parts.left_out = std::move(files.left_out);
  PS_ASSIGN(parts.all, read(files.all));
  if (!files.validation.paths.empty()) {
    PS_ASSIGN(parts.validation, read(files.validation));
  }
  return parts;
}

/// The set that some tokens are. All are below `vocabulary`.
template <typename Token>
Result<LoadedData> Cut(
    const proto::DataConfig& config, uint32_t vocabulary, ReadParts<Token> parts) {
  Texts<Token>& texts = parts.all;
  const uint32_t context = ContextOf(config);
  const bool is_masked = config.mask > 0;
  const uint64_t all_tokens = texts.tokens.size();
  const auto test_tokens = static_cast<uint64_t>(
      static_cast<double>(config.test_share) * static_cast<double>(all_tokens));
  const uint64_t train_tokens = all_tokens - test_tokens;
  const uint64_t train_windows = WindowsOf(train_tokens, context, is_masked);
  const uint64_t test_windows = WindowsOf(test_tokens, context, is_masked);
  if (train_windows == 0 || test_windows == 0) {
    return Status::InvalidArgument(fmt::format(
        "data.context is {}; allowed: less than the {} tokens of text for training and the {} for "
        "tests that data.directory has, of which data.test_share says how they are divided",
        context,
        train_tokens,
        test_tokens));
  }
  uint64_t validation_windows = 0;
  if (!config.validation.empty()) {
    PS_ASSIGN(
        validation_windows,
        WindowsOfPart(
            config, "data.validation", config.validation, parts.validation.tokens.size()));
  }
  LoadedData loaded;
  loaded.info.shape = WindowShape(config, vocabulary);
  loaded.info.classes = loaded.info.shape.vocabulary;
  loaded.info.labels = context;
  loaded.info.left_out = std::move(parts.left_out);
  loaded.info.validation_count = validation_windows;
  loaded.is_checked = texts.is_checked && parts.validation.is_checked;
  loaded.note = Joined(texts.note, parts.validation.note);
  PS_TRY(ApplyLimits(config, train_windows, test_windows, &loaded.info));
  loaded.fingerprint = FingerprintOf(loaded.info);
  const auto tokens = std::make_shared<const TokenRuns<Token>>(std::move(texts.tokens));
  const auto sum = [&](const TokenRuns<Token>& from, uint64_t first, uint64_t windows) {
    const uint64_t used = windows * context + (is_masked ? 0 : 1);
    return DataSum(used * sizeof(Token), [&](uint64_t begin, std::span<std::byte> out) {
      from.CopyBytes(first * sizeof(Token) + begin, out);
    });
  };
  loaded.fingerprint.train_images_crc = sum(*tokens, 0, loaded.info.train_count);
  loaded.fingerprint.test_images_crc = sum(*tokens, train_tokens, loaded.info.test_count);
  using TokenSamples = TextSamples<Token>;
  const auto options = OptionsOf<Token>(config, vocabulary, loaded.is_checked);
  loaded.train = std::make_unique<TokenSamples>(tokens, 0, options);
  loaded.test = std::make_unique<TokenSamples>(tokens, train_tokens, options);
  if (validation_windows > 0) {
    const auto own = std::make_shared<const TokenRuns<Token>>(std::move(parts.validation.tokens));
    AddValidation(validation_windows, sum(*own, 0, validation_windows), 0, &loaded.fingerprint);
    loaded.validation = std::make_unique<TokenSamples>(own, 0, options);
  }
  return loaded;
}

/// The samples that the tokens of one part are. All are below `vocabulary`.
template <typename Token>
Result<LoadedData> CutPart(
    const proto::DataConfig& config,
    uint32_t vocabulary,
    const std::string& part,
    Texts<Token> texts) {
  LoadedData loaded;
  loaded.info.shape = WindowShape(config, vocabulary);
  PS_ASSIGN(
      loaded.info.validation_count, WindowsOfPart(config, "the part", part, texts.tokens.size()));
  loaded.is_checked = texts.is_checked;
  loaded.note = std::move(texts.note);
  loaded.validation = std::make_unique<TextSamples<Token>>(
      std::make_shared<const TokenRuns<Token>>(std::move(texts.tokens)),
      0,
      OptionsOf<Token>(config, vocabulary, loaded.is_checked));
  return loaded;
}

/// data.tokenizer, whose tokens are all below VocabularyOf.
Result<Bpe> OpenTokenizer(const proto::DataConfig& config) {
  Result<Bpe> bpe = Bpe::Load(config.tokenizer);
  if (!bpe.ok()) {
    return Status(
        bpe.status().code(),
        fmt::format(
            "data.tokenizer \"{}\" cannot be used: {}", config.tokenizer, bpe.status().message()));
  }
  const uint32_t vocabulary = VocabularyOf(config, bpe->size());
  if (vocabulary < bpe->size()) {
    return Status::InvalidArgument(fmt::format(
        "data.vocabulary is {}; allowed: from {}, the tokens that data.tokenizer has, or 0 for as "
        "many",
        vocabulary,
        bpe->size()));
  }
  return bpe;
}

/// Tokens of data.tokenizer.
Result<LoadedData> LoadTokens(const proto::DataConfig& config, LoadProgress* progress) {
  PS_ASSIGN(const Bpe bpe, OpenTokenizer(config));
  PS_ASSIGN(ReadParts<uint32_t> parts, ReadAll<uint32_t>(config, [&](const TextFiles& files) {
              return ReadTokens(config, files, bpe, progress);
            }));
  PS_ASSIGN(LoadedData loaded, Cut(config, VocabularyOf(config, bpe.size()), std::move(parts)));
  // What the labels mean: equal tokens of another tokenizer are another text.
  loaded.fingerprint.train_labels_crc = bpe.crc();
  loaded.fingerprint.test_labels_crc = bpe.crc();
  return loaded;
}

}  // namespace

Result<LoadedData> LoadText(const proto::DataConfig& config, LoadProgress* progress) {
  if (!config.tokenizer.empty()) {
    return LoadTokens(config, progress);
  }
  const uint32_t vocabulary = VocabularyOf(config, kBytesVocabulary);
  PS_ASSIGN(ReadParts<uint8_t> parts, ReadAll<uint8_t>(config, [&](const TextFiles& files) {
              return ReadText(config, files, vocabulary, progress);
            }));
  return Cut(config, vocabulary, std::move(parts));
}

Result<LoadedData> LoadTextPart(
    const proto::DataConfig& config, const std::string& part, LoadProgress* progress) {
  PS_ASSIGN(const TextFiles files, ListTextPart(config.directory, part));
  if (!config.tokenizer.empty()) {
    PS_ASSIGN(const Bpe bpe, OpenTokenizer(config));
    PS_ASSIGN(Texts<uint32_t> texts, ReadTokens(config, files, bpe, progress));
    return CutPart(config, VocabularyOf(config, bpe.size()), part, std::move(texts));
  }
  const uint32_t vocabulary = VocabularyOf(config, kBytesVocabulary);
  PS_ASSIGN(Texts<uint8_t> texts, ReadText(config, files, vocabulary, progress));
  return CutPart(config, vocabulary, part, std::move(texts));
}

}  // namespace ps::worker
