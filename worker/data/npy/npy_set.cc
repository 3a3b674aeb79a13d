#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "worker/data/data_sum.h"
#include "worker/data/npy/npy_checks.h"
#include "worker/data/npy/npy_parts.h"
#include "worker/data/samples.h"
#include "worker/data/validation.h"

namespace ps::worker {
namespace {

/// Each has a table of values, which is to be small beside the pictures.
constexpr int64_t kPictureChannelsMax = 64;

/// What of a set is looked at when it is read.
struct Unchecked {
  bool inputs = false;
  bool labels = false;
};

class NpySamples final : public Samples {
 public:
  NpySamples(NpyParts set, const Shape& shape, const NpyRules& rules, const Unchecked& unchecked)
      : set_(std::move(set)), rules_(rules), unchecked_(unchecked) {
    // What is flat may as well lie in a row of one channel.
    format_ = shape.is_flat() ? PictureFormat{1, 1, shape.channels}
                              : PictureFormat{shape.channels, shape.height, shape.width};
    has_bytes_ = KindOf(set_.parts.front().inputs) == InputKind::kBytes &&
                 format_.channels <= kPictureChannelsMax;
    std::array<float, 256> values{};
    for (size_t byte = 0; byte < values.size(); ++byte) {
      values[byte] = static_cast<float>(byte) * kByteScale;
    }
    format_.values.assign(has_bytes_ ? static_cast<size_t>(format_.channels) : 0, values);
  }

  Status Read(
      uint64_t sample,
      uint64_t /*draw*/,
      std::span<float> input,
      std::span<uint32_t> labels) const override {
    const NpyPart& part = set_.PartOf(sample);
    const uint64_t begin = (sample - part.first) * part.inputs.row_size();
    if (unchecked_.inputs) {
      PS_TRY(rules_.CheckInputs(part.inputs, {begin, begin + part.inputs.row_size()}));
    }
    switch (KindOf(part.inputs)) {
      case InputKind::kFloats:
        for (size_t i = 0; i < input.size(); ++i) {
          input[i] = part.inputs.FloatAt(begin + i);
        }
        break;
      case InputKind::kBytes:
        for (size_t i = 0; i < input.size(); ++i) {
          input[i] = static_cast<float>(part.inputs.data()[begin + i]) * kByteScale;
        }
        break;
      case InputKind::kTokens:
        for (size_t i = 0; i < input.size(); ++i) {
          input[i] = static_cast<float>(part.inputs.WholeAt(begin + i));
        }
        break;
    }
    return ReadLabels(sample, part, labels);
  }

  const PictureFormat* pictures() const override { return has_bytes_ ? &format_ : nullptr; }

  Status ReadRaw(
      uint64_t sample,
      uint64_t /*draw*/,
      std::span<uint8_t> bytes,
      PictureMove* move,
      std::span<uint32_t> labels) const override {
    const NpyPart& part = set_.PartOf(sample);
    const uint64_t begin = (sample - part.first) * part.inputs.row_size();
    std::copy_n(part.inputs.data().data() + begin, bytes.size(), bytes.data());
    *move = {};
    return ReadLabels(sample, part, labels);
  }

 private:
  static constexpr float kByteScale = 1.0F / 255;

  Status ReadLabels(uint64_t sample, const NpyPart& part, std::span<uint32_t> labels) const {
    const bool has_labels = part.labels.has_value();
    const NpyFile& source = has_labels ? *part.labels : part.inputs;
    const uint64_t at = (sample - part.first) * (has_labels ? labels.size() : source.row_size()) +
                        (has_labels ? 0 : 1);
    if (has_labels && unchecked_.labels) {
      PS_TRY(rules_.CheckLabels(source, {at, at + labels.size()}));
    }
    for (size_t i = 0; i < labels.size(); ++i) {
      labels[i] = rules_.task == proto::Task::kClasses
                      ? static_cast<uint32_t>(source.WholeAt(at + i))
                      : std::bit_cast<uint32_t>(source.NumberAt(at + i));
    }
    return Status::Ok();
  }

  const NpyParts set_;
  const NpyRules rules_;
  const Unchecked unchecked_;
  bool has_bytes_ = false;
  PictureFormat format_;  // with bytes
};

/// The numbers are one after the other; the first `rows` samples count.
std::vector<double> MeansOf(const NpyParts& set, size_t numbers, uint64_t rows) {
  std::vector<double> means(numbers);
  for (const NpyPart& part : set.parts) {
    const uint64_t count = std::min(part.inputs.rows(), rows - std::min(rows, part.first));
    for (uint64_t i = 0; i < count * numbers; ++i) {
      means[i % numbers] +=
          static_cast<double>(part.labels->NumberAt(i)) / static_cast<double>(rows);
    }
  }
  return means;
}

Result<NpyData> OpenNpy(const proto::DataConfig& config, proto::Task task, DatasetInfo* info) {
  PS_ASSIGN(NpyData data, OpenNpyParts(config.directory, task, config.validation));
  const NpyPart& model = data.train.parts.front();
  PS_ASSIGN(info->shape, ShapeOf(model, config.vocabulary));
  info->labels = model.labels ? static_cast<int64_t>(model.labels->row_size()) : info->shape.height;
  if (task == proto::Task::kClasses) {
    PS_ASSIGN(info->classes, CountClasses(data.train, config.vocabulary, info->labels));
  } else if (!model.labels) {
    return Status::NotFound(fmt::format(
        "data.directory \"{}\" has no train-labels*.npy, and the model's loss learns numbers of "
        "them",
        config.directory));
  } else {
    info->classes = info->labels;
  }
  PS_TRY(ApplyLimits(config, data.train.count, data.test.count, info));
  info->validation_count = data.validation.count;
  return data;
}

/// The sum of a set's inputs or labels, file behind file.
uint32_t SumOf(const NpyParts& set, bool is_of_labels) {
  std::vector<std::span<const uint8_t>> files;
  uint64_t bytes = 0;
  for (const NpyPart& part : set.parts) {
    if (!is_of_labels || part.labels) {
      files.push_back(is_of_labels ? part.labels->data() : part.inputs.data());
      bytes += files.back().size();
    }
  }
  return DataSum(bytes, [&](uint64_t begin, std::span<std::byte> out) {
    for (const std::span<const uint8_t> file : files) {
      if (begin >= file.size()) {
        begin -= file.size();
        continue;
      }
      const size_t size = std::min<uint64_t>(out.size(), file.size() - begin);
      std::ranges::copy(std::as_bytes(file.subspan(begin, size)), out.begin());
      out = out.subspan(size);
      begin = 0;
    }
  });
}

/// The sum of much data reads blocks that are far from each other.
void SumPartsOf(const NpyParts& set) {
  if (set.input_bytes() > kReadInFullMax) {
    set.Expect(MappedFile::Pattern::kPieces);
  }
}

/// Samples are read in any order: where they are small, what is around them is of no use.
void ReadSamplesFrom(const NpyParts& set) {
  constexpr uint64_t kSmallRow = 64 << 10;
  const NpyFile& model = set.parts.front().inputs;
  if (model.data().size() / model.rows() >= kSmallRow) {
    set.Expect(MappedFile::Pattern::kUsual);
  }
}

/// Looks at the values of a set that are not too many for it. One label a sample is little beside
/// the sample, and counting classes has read them.
Result<Unchecked> CheckSmall(const NpyParts& set, const NpyRules& rules, LoadProgress* progress) {
  const NpyPart& model = set.parts.front();
  const bool are_tokens =
      model.labels && rules.task == proto::Task::kClasses && model.labels->row_size() > 1;
  const Unchecked unchecked{
      set.input_bytes() > kReadInFullMax, are_tokens && set.label_bytes() > kReadInFullMax};
  if (!unchecked.inputs) {
    progress->Expect(set.input_bytes());
    PS_TRY(CheckAllInputs(set, rules, progress));
  }
  if (!unchecked.labels) {
    progress->Expect(set.label_bytes());
    PS_TRY(CheckAllLabels(set, rules, progress));
  }
  return unchecked;
}

}  // namespace

Result<LoadedData> LoadNpy(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress) {
  LoadedData loaded;
  PS_ASSIGN(NpyData data, OpenNpy(config, task, &loaded.info));
  const NpyRules rules{task, config.vocabulary, loaded.info.classes};
  PS_ASSIGN(const Unchecked train, CheckSmall(data.train, rules, progress));
  PS_ASSIGN(const Unchecked test, CheckSmall(data.test, rules, progress));
  loaded.is_checked = !train.inputs && !train.labels && !test.inputs && !test.labels;
  Unchecked validation;
  if (data.validation.count > 0) {
    PS_ASSIGN(validation, CheckSmall(data.validation, rules, progress));
    loaded.is_checked = loaded.is_checked && !validation.inputs && !validation.labels;
  }
  loaded.fingerprint = FingerprintOf(loaded.info);
  SumPartsOf(data.train);
  SumPartsOf(data.test);
  loaded.fingerprint.train_images_crc = SumOf(data.train, false);
  loaded.fingerprint.train_labels_crc = SumOf(data.train, true);
  loaded.fingerprint.test_images_crc = SumOf(data.test, false);
  loaded.fingerprint.test_labels_crc = SumOf(data.test, true);
  if (task != proto::Task::kClasses) {
    const auto numbers = static_cast<size_t>(loaded.info.labels);
    loaded.target_means = MeansOf(data.train, numbers, loaded.info.train_count);
  }
  ReadSamplesFrom(data.train);
  ReadSamplesFrom(data.test);
  const Shape& shape = loaded.info.shape;
  if (data.validation.count > 0) {
    SumPartsOf(data.validation);
    AddValidation(
        data.validation.count,
        SumOf(data.validation, false),
        SumOf(data.validation, true),
        &loaded.fingerprint);
    ReadSamplesFrom(data.validation);
    loaded.validation =
        std::make_unique<NpySamples>(std::move(data.validation), shape, rules, validation);
  }
  loaded.train = std::make_unique<NpySamples>(std::move(data.train), shape, rules, train);
  loaded.test = std::make_unique<NpySamples>(std::move(data.test), shape, rules, test);
  return loaded;
}

Result<DatasetInfo> InspectNpy(const proto::DataConfig& config, proto::Task task) {
  DatasetInfo info;
  PS_ASSIGN(const NpyData data, OpenNpy(config, task, &info));
  const NpyRules rules{task, config.vocabulary, info.classes};
  LoadProgress unwatched;
  PS_TRY(CheckSmall(data.train, rules, &unwatched).status());
  PS_TRY(CheckSmall(data.test, rules, &unwatched).status());
  if (data.validation.count > 0) {
    PS_TRY(CheckSmall(data.validation, rules, &unwatched).status());
  }
  return info;
}

}  // namespace ps::worker
