#include "worker/data/npy/npy_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "worker/data/data_listing.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

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

/// `is_named`: the job says what the part is called.
Result<NpyParts> OpenParts(
    const std::string& directory, const std::string& which, proto::Task task, bool is_named) {
  PS_ASSIGN(const auto inputs, FilesOf(directory, which + "-inputs"));
  PS_ASSIGN(auto labels, FilesOf(directory, which + "-labels"));
  const bool has_labels = !labels.empty();
  if (inputs.empty()) {
    return Status::NotFound(fmt::format(
        "data.directory \"{0}\" has no {1}-inputs*.npy{2}; write it with numpy.save",
        directory,
        which,
        is_named ? ", which data.validation \"" + which + "\" asks for" : ""));
  }
  NpyParts set;
  for (const auto& [number, path] : inputs) {
    PS_ASSIGN(NpyFile file, NpyFile::Open(path));
    NpyPart part{std::move(file), {}, set.count};
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
      part.labels = std::move(own);
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

/// Every part is as the first one of the training data.
Status PartsAgree(const NpyData& data) {
  const NpyPart& model = data.train.parts.front();
  const auto row = [](const NpyFile& file) {
    return std::vector<int64_t>(file.shape().begin() + 1, file.shape().end());
  };
  for (const NpyParts* set : {&data.train, &data.test, &data.validation}) {
    for (const NpyPart& part : set->parts) {
      const bool has_labels = part.labels.has_value() == model.labels.has_value();
      if (part.inputs.type() != model.inputs.type() || row(part.inputs) != row(model.inputs) ||
          !has_labels || (part.labels && part.labels->row_size() != model.labels->row_size())) {
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

}  // namespace

const NpyPart& NpyParts::PartOf(uint64_t sample) const {
  return *(std::ranges::upper_bound(parts, sample, {}, &NpyPart::first) - 1);
}

void NpyParts::Expect(MappedFile::Pattern pattern) const {
  for (const NpyPart& part : parts) {
    part.inputs.Expect(pattern);
  }
}

uint64_t NpyParts::input_bytes() const {
  uint64_t bytes = 0;
  for (const NpyPart& part : parts) {
    bytes += part.inputs.data().size();
  }
  return bytes;
}

uint64_t NpyParts::label_bytes() const {
  uint64_t bytes = 0;
  for (const NpyPart& part : parts) {
    bytes += part.labels ? part.labels->data().size() : 0;
  }
  return bytes;
}

Result<NpyData> OpenNpyParts(
    const std::string& directory, proto::Task task, const std::string& validation) {
  NpyData data;
  PS_ASSIGN(data.train, OpenParts(directory, "train", task, false));
  PS_ASSIGN(data.test, OpenParts(directory, "test", task, false));
  if (!validation.empty()) {
    PS_ASSIGN(data.validation, OpenParts(directory, validation, task, true));
  }
  PS_TRY(PartsAgree(data));
  return data;
}

InputKind KindOf(const NpyFile& inputs) {
  if (inputs.type() == ElementType::kU8) {
    return InputKind::kBytes;
  }
  return inputs.type() == ElementType::kF32 ? InputKind::kFloats : InputKind::kTokens;
}

namespace {

/// As most programs keep pictures: nobody has pictures of many channels that are a few pixels wide.
bool AreChannelsLast(const std::vector<int64_t>& shape) {
  constexpr int64_t kChannelsMax = 4;
  return shape[3] <= kChannelsMax && shape[1] > kChannelsMax && shape[2] > kChannelsMax;
}

}  // namespace

Result<Shape> ShapeOf(const NpyPart& part, uint32_t vocabulary) {
  const std::vector<int64_t>& shape = part.inputs.shape();
  const auto bad = [&](const std::string& what) {
    return Status::Corruption(fmt::format("{}: byte 0: {}", part.inputs.path(), what));
  };
  if (KindOf(part.inputs) == InputKind::kTokens) {
    if (shape.size() != 2 || (!part.labels && shape[1] < 2)) {
      return bad(
          "tokens need the shape (samples, tokens), and without labels two tokens a sample; bytes "
          "of images are uint8, measured values float32");
    }
    // Without labels the last token is only learnt.
    const int64_t tokens = !part.labels ? shape[1] - 1 : shape[1];
    return Shape{1, tokens, 1, ShapeKind::kTokens, vocabulary};
  }
  if (!part.labels) {
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
      if (KindOf(part.inputs) == InputKind::kBytes && AreChannelsLast(shape)) {
        return bad(fmt::format(
            "the shape ({0}, {1}, {2}, {3}) looks like samples, height, width, channels, and "
            "channels come before height and width here: numpy.save(file, "
            "x.transpose(0, 3, 1, 2)). Bytes of {1} channels that are {3} wide are taken as "
            "float32",
            shape[0],
            shape[1],
            shape[2],
            shape[3]));
      }
      return Shape{shape[1], shape[2], shape[3]};
    default:
      return bad("more than four dimensions; allowed: (samples, channels, height, width)");
  }
}

}  // namespace ps::worker
