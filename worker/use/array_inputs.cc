#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "worker/data/data_listing.h"
#include "worker/data/npy/npy_file.h"
#include "worker/use/input_kinds.h"

namespace ps::worker {
namespace {

constexpr float kByteScale = 1.0F / 255;  // as training has it

/// A file of inputs, with that of its labels where there is one.
struct Part {
  NpyFile inputs;
  std::optional<NpyFile> labels;
  uint64_t first = 0;  // number of its first sample
};

class ArraySamples final : public Samples {
 public:
  ArraySamples(std::vector<Part> parts, proto::Task task, bool is_next_learnt)
      : parts_(std::move(parts)), task_(task), is_next_learnt_(is_next_learnt) {}

  Status Read(
      uint64_t sample,
      uint64_t /*draw*/,
      std::span<float> input,
      std::span<uint32_t> labels) const override {
    const auto behind = std::ranges::upper_bound(parts_, sample, {}, &Part::first);
    const Part& part = *(behind - 1);
    const uint64_t row = sample - part.first;
    const uint64_t begin = row * part.inputs.row_size();
    for (size_t i = 0; i < input.size(); ++i) {
      input[i] = ValueAt(part.inputs, begin + i);
    }
    std::ranges::fill(labels, 0);
    if (part.labels) {
      for (size_t i = 0; i < labels.size(); ++i) {
        const uint64_t at = row * labels.size() + i;
        labels[i] = task_ == proto::Task::kClasses
                        ? static_cast<uint32_t>(part.labels->WholeAt(at))
                        : std::bit_cast<uint32_t>(part.labels->NumberAt(at));
      }
    } else if (is_next_learnt_) {
      for (size_t i = 0; i < labels.size(); ++i) {
        labels[i] = static_cast<uint32_t>(part.inputs.WholeAt(begin + 1 + i));
      }
    }
    return Status::Ok();
  }

 private:
  static float ValueAt(const NpyFile& file, uint64_t i) {
    switch (file.type()) {
      case ElementType::kF32:
        return file.FloatAt(i);
      case ElementType::kU8:
        return static_cast<float>(file.data()[i]) * kByteScale;
      default:
        return file.NumberAt(i);
    }
  }

  const std::vector<Part> parts_;
  const proto::Task task_;
  const bool is_next_learnt_;  // the last token of a row is a label
};

Result<std::vector<Part>> OpenParts(const InputsWanted& wanted) {
  const std::string prefix = wanted.PartName() + "-inputs";
  std::vector<std::string> paths = {wanted.path};
  if (wanted.is_folder) {
    PS_ASSIGN(DataListing files, ListDataFiles(wanted.path, prefix, ".npy"));
    if (files.paths.empty()) {
      return Status::NotFound(
          fmt::format("{} has no {}*.npy; write it with numpy.save", wanted.path, prefix));
    }
    paths = std::move(files.paths);
  }
  const NpyFile::Use use =
      wanted.card.task() == proto::Task::kClasses ? NpyFile::Use::kLabels : NpyFile::Use::kTargets;
  std::vector<Part> parts;
  uint64_t count = 0;
  for (const std::string& path : paths) {
    PS_ASSIGN(NpyFile inputs, NpyFile::Open(path));
    Part part{std::move(inputs), std::nullopt, count};
    count += part.inputs.rows();
    const std::filesystem::path file(path);
    std::string name = file.filename().string();
    if (wanted.is_folder && wanted.needs_labels()) {
      const std::string labels =
          (file.parent_path() / name.replace(0, prefix.size(), wanted.PartName() + "-labels"))
              .string();
      PS_ASSIGN(const bool has_labels, IsThere(labels));
      if (has_labels) {
        PS_ASSIGN(part.labels, NpyFile::Open(labels, use));
      }
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

/// What the elements are has to be what the model has learnt of.
Status CheckType(const NpyFile& file, const ModelCard& card) {
  const bool is_tokens = card.input.kind == ShapeKind::kTokens;
  const bool fits =
      is_tokens ? file.type() != ElementType::kU8 && file.type() != ElementType::kF32
                : file.type() == (card.normals.empty() ? ElementType::kF32 : ElementType::kU8);
  if (fits) {
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "{}: elements of {}; the model takes {}",
      file.path(),
      ElementTypeName(file.type()),
      is_tokens              ? "tokens, whole numbers of 16 bits or more"
      : card.normals.empty() ? "float32"
                             : "uint8, bytes that become byte / 255"));
}

/// `is_next_learnt`: a row has one token more than a sample, the last one's label.
Status CheckRows(const NpyFile& file, const ModelCard& card, bool* is_next_learnt) {
  const auto& dims = file.shape();
  if (card.input.kind == ShapeKind::kTokens) {
    const auto tokens = dims.size() == 2 ? dims[1] : 1;
    *is_next_learnt =
        card.task() == proto::Task::kClasses && card.labels > 1 && tokens == card.input.height + 1;
    return tokens == card.input.height || *is_next_learnt
               ? Status::Ok()
               : OtherShape(
                     file.path(),
                     {1, tokens, 1, ShapeKind::kTokens, card.input.vocabulary},
                     card.input);
  }
  const auto at = [&dims](size_t i) { return dims.size() > i ? dims[i] : 1; };
  const Shape shape = dims.size() == 3 ? Shape{1, at(1), at(2)} : Shape{at(1), at(2), at(3)};
  if (dims.size() > 4 || shape != card.input) {
    return OtherShape(file.path(), shape, card.input);
  }
  return Status::Ok();
}

/// Every value is looked at, as a worker does.
Status CheckValues(const NpyFile& file, const ModelCard& card, LoadProgress* progress) {
  constexpr uint64_t kBlock = uint64_t{1} << 18;
  const uint64_t count = file.rows() * file.row_size();
  const bool is_tokens = card.input.kind == ShapeKind::kTokens;
  for (uint64_t i = 0; i < count && (is_tokens || file.type() == ElementType::kF32); ++i) {
    if (i % kBlock == 0) {
      PS_TRY(progress->Advance(kBlock));
    }
    if (is_tokens) {
      const int64_t token = file.WholeAt(i);
      if (token < 0 || token >= card.input.vocabulary) {
        return file.BadElement(
            i,
            fmt::format(
                "token {} is none of the {} that the model knows", token, card.input.vocabulary));
      }
    } else if (!std::isfinite(file.FloatAt(i))) {
      return file.BadElement(i, "a value that is no finite number");
    }
  }
  return Status::Ok();
}

Status CheckLabels(const Part& part, const ModelCard& card) {
  const NpyFile& labels = *part.labels;
  const proto::Task task = card.task();
  const bool has_classes = task == proto::Task::kClasses;
  if ((has_classes && labels.type() == ElementType::kF32) || labels.rows() != part.inputs.rows() ||
      static_cast<int64_t>(labels.row_size()) != card.labels) {
    return Status::InvalidArgument(fmt::format(
        "{}: {} x {} of {}; the model wants {} {}numbers for each of {} samples",
        labels.path(),
        labels.rows(),
        labels.row_size(),
        ElementTypeName(labels.type()),
        card.labels,
        has_classes ? "whole " : "",
        part.inputs.rows()));
  }
  for (uint64_t i = 0; i < labels.rows() * labels.row_size(); ++i) {
    if (!has_classes) {
      if (const std::string wrong = WrongTarget(task, labels.NumberAt(i)); !wrong.empty()) {
        return labels.BadElement(i, "label " + wrong);
      }
      continue;
    }
    const int64_t label = labels.WholeAt(i);
    if (label < 0 || label >= card.classes) {
      return labels.BadElement(
          i, fmt::format("label {} is none of the model's {} classes", label, card.classes));
    }
  }
  return Status::Ok();
}

}  // namespace

Result<Inputs> OpenArrays(const InputsWanted& wanted) {
  PS_ASSIGN(std::vector<Part> parts, OpenParts(wanted));
  Inputs inputs;
  bool is_next_learnt = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    PS_TRY(CheckType(part.inputs, wanted.card));
    bool has_next = false;
    PS_TRY(CheckRows(part.inputs, wanted.card, &has_next));
    if (i > 0 && (has_next != is_next_learnt || part.labels.has_value() != inputs.has_labels)) {
      return Status::InvalidArgument(fmt::format(
          "{}: labels, or tokens a row, are not those of {}",
          part.inputs.path(),
          parts[0].inputs.path()));
    }
    is_next_learnt = has_next;
    inputs.has_labels = part.labels.has_value();
    PS_TRY(CheckValues(part.inputs, wanted.card, wanted.progress));
    if (part.labels) {
      PS_TRY(CheckLabels(part, wanted.card));
    }
    inputs.count += part.inputs.rows();
  }
  inputs.has_labels = wanted.needs_labels() && (inputs.has_labels || is_next_learnt);
  if (wanted.needs_labels() && !inputs.has_labels) {
    return NoLabels(
        wanted.path,
        fmt::format("{0}-labels*.npy lie beside {0}-inputs*.npy in one folder", wanted.PartName()));
  }
  inputs.samples =
      std::make_unique<ArraySamples>(std::move(parts), wanted.card.task(), is_next_learnt);
  return inputs;
}

}  // namespace ps::worker
