#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "ps/base/crc32c.h"
#include "worker/data/data_listing.h"
#include "worker/data/npy_file.h"
#include "worker/data/samples.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

/// Each has a table of values, which is to be small beside the pictures.
constexpr int64_t kPictureChannelsMax = 64;
constexpr int64_t kClassesMax = int64_t{1} << 20;

/// What a number of an inputs file is.
enum class InputKind : uint8_t {
  kBytes,   // uint8: divided by 255
  kFloats,  // float32: as it is
  kTokens,  // other whole numbers
};

/// A part: inputs, and labels unless the next token is what is learnt.
struct Part {
  NpyFile inputs;
  std::vector<NpyFile> labels;  // none or one
  uint64_t first = 0;           // number of its first sample
};

/// The parts of training or test data, in the order of their names.
struct Parts {
  std::vector<Part> parts;
  uint64_t count = 0;
};

InputKind KindOf(const NpyFile& inputs) {
  if (inputs.type() == ElementType::kU8) {
    return InputKind::kBytes;
  }
  return inputs.type() == ElementType::kF32 ? InputKind::kFloats : InputKind::kTokens;
}

/// The files `prefix`*.npy of the folder by what stands for the star.
Result<std::map<std::string, std::string>> FilesOf(
    const std::string& directory, const std::string& prefix) {
  constexpr std::string_view kEnd = ".npy";
  PS_ASSIGN(const DataListing listing, ListDataFiles(directory, prefix, kEnd));
  std::map<std::string, std::string> files;
  for (const std::string& path : listing.paths) {
    if (!path.ends_with(kEnd)) {
      return Status::InvalidArgument(fmt::format(
          "{}: arrays are read where they lie on the disk, which a packed one does not allow; "
          "unpack it by: gunzip {}",
          path,
          path));
    }
    const std::string name = fs::path(path).filename().string();
    files[name.substr(prefix.size(), name.size() - prefix.size() - kEnd.size())] = path;
  }
  return files;
}

/// Numbers to learn: one or several a sample.
Status TargetsFit(const NpyFile& inputs, const NpyFile& labels) {
  return labels.rows() == inputs.rows() && labels.shape().size() <= 2
             ? Status::Ok()
             : Status::Corruption(fmt::format(
                   "{}: byte 0: {} x {} numbers for {} samples of {}; the shape (samples,) or "
                   "(samples, numbers) is needed",
                   labels.path(),
                   labels.rows(),
                   labels.row_size(),
                   inputs.rows(),
                   inputs.path()));
}

Status LabelsFit(const NpyFile& inputs, const NpyFile& labels, proto::Task task) {
  if (task != proto::Task::kClasses) {
    return TargetsFit(inputs, labels);
  }
  if (labels.type() == ElementType::kF32) {
    return Status::Corruption(fmt::format(
        "{}: byte 0: labels of type float32; for classes, save labels.astype(numpy.int64); to "
        "predict numbers (regression), end model.layers with the loss mse, mae or huber",
        labels.path()));
  }
  const bool is_each_token = KindOf(inputs) == InputKind::kTokens && labels.shape().size() == 2;
  if (labels.rows() == inputs.rows() &&
      (labels.row_size() == 1 || (is_each_token && labels.shape() == inputs.shape()))) {
    return Status::Ok();
  }
  return Status::Corruption(fmt::format(
      "{}: byte 0: {} x {} labels for {} samples of {}; one label a sample is needed{}",
      labels.path(),
      labels.rows(),
      labels.row_size(),
      inputs.rows(),
      inputs.path(),
      KindOf(inputs) == InputKind::kTokens ? ", or one a token" : ""));
}

Result<Parts> OpenParts(const std::string& directory, const std::string& which, proto::Task task) {
  PS_ASSIGN(const auto inputs, FilesOf(directory, which + "-inputs"));
  PS_ASSIGN(auto labels, FilesOf(directory, which + "-labels"));
  const bool has_labels = !labels.empty();
  if (inputs.empty()) {
    return Status::NotFound(fmt::format(
        "data.directory \"{}\" has no {}-inputs*.npy; write it with numpy.save", directory, which));
  }
  Parts set;
  for (const auto& [number, path] : inputs) {
    PS_ASSIGN(NpyFile file, NpyFile::Open(path));
    Part part{std::move(file), {}, set.count};
    set.count += part.inputs.rows();
    if (has_labels) {
      const auto found = labels.find(number);
      if (found == labels.end()) {
        return Status::NotFound(fmt::format(
            "data.directory \"{}\" has no {}-labels{}.npy beside {}",
            directory,
            which,
            number,
            path));
      }
      PS_ASSIGN(
          NpyFile own,
          NpyFile::Open(
              found->second,
              task == proto::Task::kClasses ? NpyFile::Use::kLabels : NpyFile::Use::kTargets));
      PS_TRY(LabelsFit(part.inputs, own, task));
      part.labels.push_back(std::move(own));
      labels.erase(found);
    }
    set.parts.push_back(std::move(part));
  }
  if (!labels.empty()) {
    return Status::NotFound(fmt::format(
        "{}: there is no {}-inputs{}.npy beside it",
        labels.begin()->second,
        which,
        labels.begin()->first));
  }
  return set;
}

struct NpyData {
  Parts train;
  Parts test;
};

/// Every part is as the first one of the training data.
Status PartsAgree(const NpyData& data) {
  const Part& model = data.train.parts.front();
  const auto row = [](const NpyFile& file) {
    return std::vector<int64_t>(file.shape().begin() + 1, file.shape().end());
  };
  for (const Parts* set : {&data.train, &data.test}) {
    for (const Part& part : set->parts) {
      const bool has_labels = part.labels.empty() == model.labels.empty();
      if (part.inputs.type() != model.inputs.type() || row(part.inputs) != row(model.inputs) ||
          !has_labels ||
          (!part.labels.empty() && part.labels[0].row_size() != model.labels[0].row_size())) {
        return Status::Corruption(fmt::format(
            "{}: byte 0: its type ({}), the shape of its samples or of their labels is not that of "
            "{} ({}); all parts need the same",
            part.inputs.path(),
            ElementTypeName(part.inputs.type()),
            model.inputs.path(),
            ElementTypeName(model.inputs.type())));
      }
    }
  }
  return Status::Ok();
}

Result<Shape> ShapeOf(const Part& part, uint32_t vocabulary) {
  const std::vector<int64_t>& shape = part.inputs.shape();
  const auto bad = [&](const std::string& what) {
    return Status::Corruption(fmt::format("{}: byte 0: {}", part.inputs.path(), what));
  };
  if (KindOf(part.inputs) == InputKind::kTokens) {
    if (shape.size() != 2 || (part.labels.empty() && shape[1] < 2)) {
      return bad(
          "tokens need the shape (samples, tokens), and without labels two tokens a sample; bytes "
          "of images are uint8, measured values float32");
    }
    // Without labels the last token is only learnt.
    const int64_t tokens = part.labels.empty() ? shape[1] - 1 : shape[1];
    return Shape{1, tokens, 1, ShapeKind::kTokens, vocabulary};
  }
  if (part.labels.empty()) {
    return bad("there are no labels beside it; only tokens can do without");
  }
  switch (shape.size()) {
    case 1:
      return Shape{1, 1, 1};
    case 2:
      return Shape{shape[1], 1, 1};
    case 3:
      return Shape{1, shape[1], shape[2]};
    case 4:
      return Shape{shape[1], shape[2], shape[3]};
    default:
      return bad("more than four dimensions; allowed: (samples, channels, height, width)");
  }
}

/// Elements [begin, end).
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

uint64_t CountOf(const NpyFile& file) {
  return file.rows() * file.row_size();
}

Status CheckBelow(
    const NpyFile& file,
    const ElementRange& range,
    int64_t limit,
    const char* what,
    const char* remedy) {
  for (uint64_t i = range.begin; i < range.end; ++i) {
    const int64_t value = file.WholeAt(i);
    if (value < 0 || value >= limit) {
      return file.BadElement(
          i,
          fmt::format(
              "{} {} is out of range; allowed is 0 to {}{}", what, value, limit - 1, remedy));
    }
  }
  return Status::Ok();
}

Status CheckTargets(const NpyFile& file, const ElementRange& range, proto::Task task) {
  for (uint64_t i = range.begin; i < range.end; ++i) {
    if (const std::string wrong = WrongTarget(task, file.NumberAt(i)); !wrong.empty()) {
      return file.BadElement(
          i,
          fmt::format("label {} of sample {} {}", i % file.row_size(), i / file.row_size(), wrong));
    }
  }
  return Status::Ok();
}

Status CheckFinite(const NpyFile& file, const ElementRange& range) {
  for (uint64_t i = range.begin; i < range.end; ++i) {
    if (!std::isfinite(file.FloatAt(i))) {
      return file.BadElement(
          i,
          fmt::format(
              "value {} of sample {} is {}; every value has to be a finite number",
              i % file.row_size(),
              i / file.row_size(),
              file.FloatAt(i)));
    }
  }
  return Status::Ok();
}

/// One more than the largest label in training; of tokens that are learnt, the vocabulary.
Result<int64_t> CountClasses(const proto::DataConfig& config, const NpyData& data, int64_t labels) {
  const Part& model = data.train.parts.front();
  const bool is_tokens = KindOf(model.inputs) == InputKind::kTokens;
  if (is_tokens && config.vocabulary == 0) {
    return Status::InvalidArgument(
        "data.vocabulary is 0, and data.directory has tokens; allowed: one more than the largest "
        "token");
  }
  if (is_tokens && (model.labels.empty() || labels > 1)) {  // two stored tokens are one to learn
    return int64_t{config.vocabulary};
  }
  int64_t largest = 0;
  for (const Part& part : data.train.parts) {
    PS_TRY(CheckBelow(part.labels[0], {0, CountOf(part.labels[0])}, kClassesMax, "label", ""));
    for (uint64_t i = 0; i < part.labels[0].rows(); ++i) {
      largest = std::max(largest, part.labels[0].WholeAt(i));
    }
  }
  if (largest == 0) {
    return Status::Corruption(fmt::format(
        "{}: byte 0: every label is 0; there are at least two classes", model.labels[0].path()));
  }
  return largest + 1;
}

/// Goes over a file block by block: `check` a range of its elements, and the checksum of all.
template <typename Check>
Status GoOver(const NpyFile& file, const Check& check, LoadProgress* progress, uint32_t* crc) {
  constexpr uint64_t kBlock = uint64_t{1} << 18;  // elements
  const uint64_t count = CountOf(file);
  const uint64_t size = file.data().size() / count;
  for (uint64_t begin = 0; begin < count; begin += kBlock) {
    const ElementRange range{begin, std::min(begin + kBlock, count)};
    PS_TRY(check(range));
    const uint64_t bytes = (range.end - range.begin) * size;
    *crc = Crc32c(std::as_bytes(file.data().subspan(range.begin * size, bytes)), *crc);
    PS_TRY(progress->Advance(bytes));
  }
  return Status::Ok();
}

struct Checksums {
  uint32_t inputs = 0;
  uint32_t labels = 0;
};

/// The whole of a set: values that fit, and its checksums.
Result<Checksums> CheckValues(
    const Parts& set,
    const DatasetInfo& info,
    uint32_t vocabulary,
    proto::Task task,
    LoadProgress* progress) {
  Checksums sums;
  for (const Part& part : set.parts) {
    const NpyFile& inputs = part.inputs;
    const auto check_inputs = [&](const ElementRange& range) {
      switch (KindOf(inputs)) {
        case InputKind::kTokens:
          return CheckBelow(inputs, range, vocabulary, "token", ", or a larger data.vocabulary");
        case InputKind::kFloats:
          return CheckFinite(inputs, range);
        case InputKind::kBytes:
          break;
      }
      return Status::Ok();
    };
    PS_TRY(GoOver(inputs, check_inputs, progress, &sums.inputs));
    for (const NpyFile& file : part.labels) {
      const auto check_labels = [&](const ElementRange& range) {
        if (task != proto::Task::kClasses) {
          return CheckTargets(file, range, task);
        }
        return CheckBelow(file, range, info.classes, "label", "; the training labels say so");
      };
      PS_TRY(GoOver(file, check_labels, progress, &sums.labels));
    }
  }
  return sums;
}

class NpySamples final : public Samples {
 public:
  NpySamples(Parts set, const Shape& shape, proto::Task task) : set_(std::move(set)), task_(task) {
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

  void Read(uint64_t sample, uint64_t /*draw*/, std::span<float> input, std::span<uint32_t> labels)
      const override {
    const Part& part = PartOf(sample);
    const uint64_t begin = (sample - part.first) * part.inputs.row_size();
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
    ReadLabels(sample, part, labels);
  }

  const PictureFormat* pictures() const override { return has_bytes_ ? &format_ : nullptr; }

  void ReadRaw(
      uint64_t sample,
      uint64_t /*draw*/,
      std::span<uint8_t> bytes,
      PictureMove* move,
      std::span<uint32_t> labels) const override {
    const Part& part = PartOf(sample);
    const uint64_t begin = (sample - part.first) * part.inputs.row_size();
    std::copy_n(part.inputs.data().data() + begin, bytes.size(), bytes.data());
    *move = {};
    ReadLabels(sample, part, labels);
  }

 private:
  static constexpr float kByteScale = 1.0F / 255;

  const Part& PartOf(uint64_t sample) const {
    const auto behind = std::upper_bound(
        set_.parts.begin(), set_.parts.end(), sample, [](uint64_t number, const Part& part) {
          return number < part.first;
        });
    return *(behind - 1);
  }

  void ReadLabels(uint64_t sample, const Part& part, std::span<uint32_t> labels) const {
    const bool has_labels = !part.labels.empty();
    const NpyFile& source = has_labels ? part.labels[0] : part.inputs;
    const uint64_t at = (sample - part.first) * (has_labels ? labels.size() : source.row_size()) +
                        (has_labels ? 0 : 1);
    for (size_t i = 0; i < labels.size(); ++i) {
      labels[i] = task_ == proto::Task::kClasses ? static_cast<uint32_t>(source.WholeAt(at + i))
                                                 : std::bit_cast<uint32_t>(source.NumberAt(at + i));
    }
  }

  const Parts set_;
  const proto::Task task_;
  bool has_bytes_ = false;
  PictureFormat format_;  // with bytes
};

/// The numbers are one after the other; the first `rows` samples count.
std::vector<double> MeansOf(const Parts& set, size_t numbers, uint64_t rows) {
  std::vector<double> means(numbers);
  for (const Part& part : set.parts) {
    const uint64_t count = std::min(part.inputs.rows(), rows - std::min(rows, part.first));
    for (uint64_t i = 0; i < count * numbers; ++i) {
      means[i % numbers] +=
          static_cast<double>(part.labels[0].NumberAt(i)) / static_cast<double>(rows);
    }
  }
  return means;
}

Result<NpyData> OpenNpy(const proto::DataConfig& config, proto::Task task, DatasetInfo* info) {
  NpyData data;
  PS_ASSIGN(data.train, OpenParts(config.directory, "train", task));
  PS_ASSIGN(data.test, OpenParts(config.directory, "test", task));
  PS_TRY(PartsAgree(data));
  const Part& model = data.train.parts.front();
  PS_ASSIGN(info->shape, ShapeOf(model, config.vocabulary));
  info->labels =
      model.labels.empty() ? info->shape.height : static_cast<int64_t>(model.labels[0].row_size());
  if (task == proto::Task::kClasses) {
    PS_ASSIGN(info->classes, CountClasses(config, data, info->labels));
  } else if (model.labels.empty()) {
    return Status::NotFound(fmt::format(
        "data.directory \"{}\" has no train-labels*.npy, and the model's loss learns numbers of "
        "them",
        config.directory));
  } else {
    info->classes = info->labels;
  }
  PS_TRY(ApplyLimits(config, data.train.count, data.test.count, info));
  return data;
}

}  // namespace

Result<LoadedData> LoadNpy(
    const proto::DataConfig& config, proto::Task task, LoadProgress* progress) {
  LoadedData loaded;
  PS_ASSIGN(NpyData data, OpenNpy(config, task, &loaded.info));
  for (const Parts* const set : {&data.train, &data.test}) {
    for (const Part& part : set->parts) {
      progress->Expect(part.inputs.data().size());
      progress->Expect(part.labels.empty() ? 0 : part.labels[0].data().size());
    }
  }
  PS_ASSIGN(
      const Checksums train,
      CheckValues(data.train, loaded.info, config.vocabulary, task, progress));
  PS_ASSIGN(
      const Checksums test, CheckValues(data.test, loaded.info, config.vocabulary, task, progress));
  loaded.fingerprint = FingerprintOf(loaded.info);
  loaded.fingerprint.train_images_crc = train.inputs;
  loaded.fingerprint.train_labels_crc = train.labels;
  loaded.fingerprint.test_images_crc = test.inputs;
  loaded.fingerprint.test_labels_crc = test.labels;
  if (task != proto::Task::kClasses) {
    const auto numbers = static_cast<size_t>(loaded.info.labels);
    loaded.target_means = MeansOf(data.train, numbers, loaded.info.train_count);
  }
  loaded.train = std::make_unique<NpySamples>(std::move(data.train), loaded.info.shape, task);
  loaded.test = std::make_unique<NpySamples>(std::move(data.test), loaded.info.shape, task);
  return loaded;
}

Result<DatasetInfo> InspectNpy(const proto::DataConfig& config, proto::Task task) {
  DatasetInfo info;
  PS_TRY(OpenNpy(config, task, &info).status());
  return info;
}

}  // namespace ps::worker
