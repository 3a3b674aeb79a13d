#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "ps/base/crc32c.h"
#include "ps/base/random.h"
#include "worker/data/samples.h"
#include "worker/data/text_files.h"

namespace ps::worker {
namespace {

constexpr uint32_t kContext = 128;
constexpr uint32_t kBytesVocabulary = 256;

// What becomes of a token that is to be learnt (Devlin et al. 2018, section 3.1).
constexpr double kShownAsMask = 0.8;
constexpr double kShownAsOther = 0.1;

/// Windows of `context` tokens, one behind the other. Each token's label is the token after it, or,
/// where tokens are hidden, itself.
class TextSamples final : public Samples {
 public:
  /// `hidden` tokens of each window; the token that hides them is `vocabulary`.
  TextSamples(std::vector<uint8_t> bytes, size_t context, size_t hidden, uint32_t vocabulary)
      : bytes_(std::move(bytes)), context_(context), hidden_(hidden), vocabulary_(vocabulary) {}

  void Read(uint64_t sample, uint64_t draw, std::span<float> input, std::span<uint32_t> labels)
      const override {
    const uint8_t* window = bytes_.data() + sample * context_;
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
  const std::vector<uint8_t> bytes_;
  const size_t context_;
  const size_t hidden_;
  const uint32_t vocabulary_;
};

/// How many windows `size` bytes have; with a label behind the last token of each.
uint64_t WindowsOf(uint64_t size, uint64_t context, bool is_masked) {
  const uint64_t last = is_masked ? 0 : 1;
  return size <= last ? 0 : (size - last) / context;
}

}  // namespace

Result<LoadedData> LoadText(const proto::DataConfig& config) {
  const uint32_t context = config.context == 0 ? kContext : config.context;
  const uint32_t vocabulary = config.vocabulary == 0 ? kBytesVocabulary : config.vocabulary;
  const bool is_masked = config.mask > 0;
  PS_ASSIGN(std::vector<uint8_t> train, ReadText(config.directory, vocabulary));
  const auto test_bytes = static_cast<size_t>(
      static_cast<double>(config.test_share) * static_cast<double>(train.size()));
  const auto split = train.end() - static_cast<int64_t>(test_bytes);
  std::vector<uint8_t> test(split, train.end());
  train.erase(split, train.end());
  const uint64_t train_windows = WindowsOf(train.size(), context, is_masked);
  const uint64_t test_windows = WindowsOf(test.size(), context, is_masked);
  if (train_windows == 0 || test_windows == 0) {
    return Status::InvalidArgument(fmt::format(
        "data.context is {}; allowed: less than the {} bytes of text for training and the {} for "
        "tests that data.directory has, of which data.test_share says how they are divided",
        context,
        train.size(),
        test.size()));
  }
  LoadedData loaded;
  loaded.info.shape = {1, context, 1, ShapeKind::kTokens, vocabulary + (is_masked ? 1 : 0)};
  loaded.info.classes = loaded.info.shape.vocabulary;
  loaded.info.labels = context;
  PS_TRY(ApplyLimits(config, train_windows, test_windows, &loaded.info));
  loaded.fingerprint = FingerprintOf(loaded.info);
  const auto crc = [&](const std::vector<uint8_t>& bytes, uint64_t windows) {
    const size_t used = windows * context + (is_masked ? 0 : 1);
    return Crc32c(std::as_bytes(std::span(bytes).first(used)));
  };
  loaded.fingerprint.train_images_crc = crc(train, loaded.info.train_count);
  loaded.fingerprint.test_images_crc = crc(test, loaded.info.test_count);
  const auto wanted = static_cast<size_t>(std::lround(config.mask * static_cast<float>(context)));
  const size_t hidden = is_masked ? std::clamp<size_t>(wanted, 1, context) : 0;
  loaded.train = std::make_unique<TextSamples>(std::move(train), context, hidden, vocabulary);
  loaded.test = std::make_unique<TextSamples>(std::move(test), context, hidden, vocabulary);
  return loaded;
}

}  // namespace ps::worker
