#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/data/text/text_files.h"
#include "worker/data/text/text_set.h"
#include "worker/use/input_kinds.h"
#include "worker/use/tokens.h"

namespace ps::worker {
namespace {

/// Pieces of a text, each with the token behind it where there is one.
class PieceSamples final : public Samples {
 public:
  explicit PieceSamples(std::vector<uint32_t> tokens) : tokens_(std::move(tokens)) {}

  Status Read(
      uint64_t sample,
      uint64_t /*draw*/,
      std::span<float> input,
      std::span<uint32_t> labels) const override {
    const size_t begin = sample * input.size();
    for (size_t i = 0; i < input.size(); ++i) {
      input[i] = static_cast<float>(tokens_[begin + i]);
    }
    for (size_t i = 0; i < labels.size(); ++i) {
      const size_t next = begin + i + 1;
      labels[i] = next < tokens_.size() ? tokens_[next] : 0;
    }
    return Status::Ok();
  }

 private:
  const std::vector<uint32_t> tokens_;
};

/// A part of a folder's texts that is asked for by its name.
Result<Inputs> OpenNamedPart(const InputsWanted& wanted, const proto::DataConfig& config) {
  if (wanted.part == "train") {
    return Status::InvalidArgument(
        "texts have no part \"train\": all of a folder is one text, whose end is for tests; "
        "allowed: without a part, these tests, or a part of its own, as val.txt is val");
  }
  PS_ASSIGN(LoadedData loaded, LoadTextPart(config, wanted.part, wanted.progress));
  if (loaded.info.shape != wanted.card.input) {
    return OtherShape(wanted.path, loaded.info.shape, wanted.card.input);
  }
  return Inputs{std::move(loaded.validation), loaded.info.validation_count, wanted.needs_labels()};
}

/// The part of a folder's text that training leaves to tests, or the one that is asked for.
Result<Inputs> OpenPartOfFolder(const InputsWanted& wanted) {
  proto::DataConfig config = wanted.card.data;
  config.directory = wanted.path;
  if (!wanted.part.empty()) {
    return OpenNamedPart(wanted, config);
  }
  if (ListTexts(config).status().code() == StatusCode::kNotFound) {
    config.validation.clear();  // a folder of other texts has no such part
  }
  config.train_samples = 0;
  config.test_samples = 0;
  PS_ASSIGN(LoadedData loaded, LoadText(config, wanted.progress));
  if (loaded.info.shape != wanted.card.input) {
    return OtherShape(wanted.path, loaded.info.shape, wanted.card.input);
  }
  return Inputs{std::move(loaded.test), loaded.info.test_count, wanted.needs_labels()};
}

}  // namespace

Result<Inputs> OpenTexts(const InputsWanted& wanted) {
  const ModelCard& card = wanted.card;
  PS_ASSIGN(Tokens tokens, Tokens::Of(card));
  if (wanted.is_folder) {
    return OpenPartOfFolder(wanted);
  }
  if (card.data.mask > 0) {
    return Status::InvalidArgument(
        "the model learns tokens that are hidden, which are chosen in a folder of texts; allowed: "
        "a folder");
  }
  std::vector<uint8_t> bytes;
  PS_TRY(AppendText(wanted.path, kBytesVocabulary, &bytes, wanted.progress));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  PS_ASSIGN(std::vector<uint32_t> cut, tokens.Encode(text).Annotate(wanted.path));
  const auto context = static_cast<uint64_t>(card.input.height);
  Inputs inputs;
  inputs.has_labels = wanted.needs_labels();
  const uint64_t last = inputs.has_labels ? 1 : 0;  // learnt only
  inputs.count = (cut.size() - std::min<uint64_t>(cut.size(), last)) / context;
  if (inputs.count == 0) {
    return Status::InvalidArgument(fmt::format(
        "{}: {} tokens; the model takes samples of {}, so a text has at least {}",
        wanted.path,
        cut.size(),
        context,
        context + last));
  }
  inputs.samples = std::make_unique<PieceSamples>(std::move(cut));
  return inputs;
}

}  // namespace ps::worker
