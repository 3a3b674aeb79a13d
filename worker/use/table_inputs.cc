#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ps/base/text.h"
#include "ps/json/json_reader.h"
#include "worker/data/data_listing.h"
#include "worker/data/table/table_file.h"
#include "worker/use/input_kinds.h"

namespace ps::worker {
namespace {

constexpr size_t kNoColumn = SIZE_MAX;

class RowSamples final : public Samples {
 public:
  /// `labels` [rows, labels of a sample]: classes, or the bits of numbers.
  RowSamples(std::vector<float> values, std::vector<uint32_t> labels)
      : values_(std::move(values)), labels_(std::move(labels)) {}

  Status Read(
      uint64_t sample,
      uint64_t /*draw*/,
      std::span<float> input,
      std::span<uint32_t> labels) const override {
    std::copy_n(
        values_.begin() + static_cast<int64_t>(sample * input.size()), input.size(), input.begin());
    std::copy_n(
        labels_.begin() + static_cast<int64_t>(sample * labels.size()),
        labels.size(),
        labels.begin());
    return Status::Ok();
  }

 private:
  const std::vector<float> values_;
  const std::vector<uint32_t> labels_;
};

/// Which cell of a row goes where.
struct Places {
  std::vector<size_t> inputs;  // by cell: the model's input, or kNoColumn
  std::vector<size_t> labels;  // of each label the cell, or kNoColumn

  bool IsLabel(size_t cell) const { return std::ranges::find(labels, cell) != labels.end(); }
};

/// How many labels a row has.
size_t LabelCount(const ModelCard& card) {
  return static_cast<size_t>(card.labels);
}

Result<Places> ByName(
    const ModelCard& card, const std::vector<std::string_view>& cells, const TableFile& file) {
  Places places;
  places.labels.assign(LabelCount(card), kNoColumn);
  std::vector<bool> is_there(card.columns.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string_view name = TrimmedCell(cells[i]);
    const auto found = std::ranges::find(card.columns, name);
    const auto input = static_cast<size_t>(found - card.columns.begin());
    const auto target = std::ranges::find(card.label_columns, name);
    if (found == card.columns.end() && target != card.label_columns.end()) {
      places.labels[static_cast<size_t>(target - card.label_columns.begin())] = i;
    } else if (found == card.columns.end() || is_there[input]) {
      return file.Bad(fmt::format(
          "a column {} that the model {}; it takes {}",
          Quoted(name),
          found == card.columns.end() ? "has not learnt of" : "takes once",
          Clip(Join(card.columns), 200)));
    } else {
      is_there[input] = true;
    }
    places.inputs.push_back(found == card.columns.end() ? kNoColumn : input);
  }
  const auto missing = std::ranges::find(is_there, false);
  if (missing != is_there.end()) {
    return file.Bad(fmt::format(
        "no column {}, which the model takes",
        Quoted(card.columns[static_cast<size_t>(missing - is_there.begin())])));
  }
  return places;
}

/// The columns that data.labels or data.label of the model's job name by their numbers; the last
/// ones where they name none, or what is no column of so many.
std::vector<size_t> LabelNumbers(const ModelCard& card, size_t columns) {
  std::vector<std::string> named = card.data.labels;
  if (named.empty()) {
    named.push_back(card.data.label);
  }
  std::vector<size_t> labels;
  for (const std::string& name : named) {
    const std::optional<double> number = NumberIn(name);
    const bool is_column = number && *number >= 0 && *number < static_cast<double>(columns) &&
                           *number == std::floor(*number);
    const size_t column = is_column ? static_cast<size_t>(*number) : kNoColumn;
    if (is_column && std::ranges::find(labels, column) == labels.end()) {
      labels.push_back(column);
    }
  }
  if (labels.size() != LabelCount(card)) {
    labels.clear();
    for (size_t i = columns - LabelCount(card); i < columns; ++i) {
      labels.push_back(i);
    }
  }
  return labels;
}

/// Without names: as many columns as inputs, or one more for each label.
Result<Places> ByNumber(const ModelCard& card, size_t columns, const TableFile& file) {
  const auto inputs = static_cast<size_t>(card.input.channels);
  const size_t labels = LabelCount(card);
  Places places;
  if (columns == inputs + labels) {
    places.labels = LabelNumbers(card, columns);
  } else if (columns == inputs) {
    places.labels.assign(labels, kNoColumn);
  } else {
    return file.Bad(fmt::format(
        "{} columns; the model takes {}, with {} more for labels if there are any",
        columns,
        inputs,
        labels));
  }
  size_t input = 0;
  for (size_t i = 0; i < columns; ++i) {
    places.inputs.push_back(places.IsLabel(i) ? kNoColumn : input++);
  }
  return places;
}

/// Nothing: no class of the model is called so.
std::optional<uint32_t> ClassOf(const ModelCard& card, std::string_view cell) {
  const std::optional<double> number = NumberIn(cell);
  if (card.class_names.empty()) {
    const bool is_class = number && *number >= 0 && *number < static_cast<double>(card.classes) &&
                          *number == std::floor(*number);
    return is_class ? std::optional(static_cast<uint32_t>(*number)) : std::nullopt;
  }
  // As training does: where one of them is no number, none is.
  const bool are_numbers = std::ranges::all_of(card.class_names, [](const std::string& name) {
    const std::optional<double> own = NumberIn(name);
    return own && std::isfinite(*own);
  });
  const auto found = std::ranges::find_if(card.class_names, [&](const std::string& name) {
    return are_numbers ? number && NumberIn(name) == number : name == cell;
  });
  return found == card.class_names.end()
             ? std::nullopt
             : std::optional(static_cast<uint32_t>(found - card.class_names.begin()));
}

/// The rows of all files.
class RowReader {
 public:
  explicit RowReader(const InputsWanted& wanted)
      : wanted_(wanted), task_(wanted.card.task()), label_count_(LabelCount(wanted.card)) {}

  Status Append(const std::string& path) {
    const bool is_tsv = wanted_.card.data.format == proto::DatasetFormat::kTsv;
    PS_ASSIGN(TableFile file, TableFile::Open(path, is_tsv ? '\t' : ',', wanted_.progress));
    std::vector<std::string_view> cells;
    std::optional<Places> places;
    while (true) {
      PS_ASSIGN(const bool has_row, file.Next(&cells));
      if (!has_row) {
        return Status::Ok();
      }
      if (!places) {
        PS_ASSIGN(places, PlacesOf(cells, file));
        if (wanted_.card.data.header) {
          continue;
        }
      }
      PS_TRY(Row(cells, *places, file));
    }
  }

  Result<Inputs> Take() {
    if (count_ == 0) {
      return Status::InvalidArgument(wanted_.path + " has no rows");
    }
    Inputs inputs;
    inputs.count = count_;
    inputs.has_labels = wanted_.needs_labels();
    inputs.samples = std::make_unique<RowSamples>(std::move(values_), std::move(labels_));
    return inputs;
  }

 private:
  Result<Places> PlacesOf(const std::vector<std::string_view>& cells, const TableFile& file) const {
    PS_ASSIGN(
        const Places places,
        wanted_.card.data.header ? ByName(wanted_.card, cells, file)
                                 : ByNumber(wanted_.card, cells.size(), file));
    if (wanted_.needs_labels() && places.IsLabel(kNoColumn)) {
      return NoLabels(wanted_.path, "they are " + LabelsText());
    }
    return places;
  }

  std::string LabelsText() const {
    const std::vector<std::string>& names = wanted_.card.label_columns;
    if (names.empty()) {
      return label_count_ == 1 ? "a column more" : fmt::format("{} columns more", label_count_);
    }
    std::vector<std::string> quoted;
    for (const std::string& name : names) {
      quoted.push_back(Quoted(name));
    }
    return (label_count_ == 1 ? "the column " : "the columns ") + Clip(Join(quoted), 200);
  }

  Result<uint32_t> ClassIn(std::string_view cell, const TableFile& file) const {
    const std::optional<uint32_t> known = ClassOf(wanted_.card, cell);
    if (!known) {
      return file.Bad(fmt::format(
          "label {} is none of the model's {} classes",
          Quoted(Clip(cell, 40)),
          wanted_.card.classes));
    }
    return *known;
  }

  /// The bits of a number that is learnt.
  Result<uint32_t> TargetIn(std::string_view cell, const TableFile& file) const {
    const std::optional<double> number = NumberIn(cell);
    if (!number) {
      return file.Bad(fmt::format(
          "label {} is no number, and the model has learnt numbers", Quoted(Clip(cell, 40))));
    }
    const auto target = static_cast<float>(*number);
    if (const std::string wrong = WrongTarget(task_, target); !wrong.empty()) {
      return file.Bad(fmt::format("label {} {}", Quoted(Clip(cell, 40)), wrong));
    }
    return std::bit_cast<uint32_t>(target);
  }

  Status Row(
      const std::vector<std::string_view>& cells, const Places& places, const TableFile& file) {
    if (cells.size() != places.inputs.size()) {
      return file.Bad(
          fmt::format("{} columns; the first line has {}", cells.size(), places.inputs.size()));
    }
    const auto inputs = static_cast<size_t>(wanted_.card.input.channels);
    const size_t begin = values_.size();
    if ((begin + inputs + labels_.size() + label_count_) * sizeof(float) > kTableBytesMax) {
      return file.Bad(fmt::format("more than {} of values", FormatBytes(kTableBytesMax)));
    }
    values_.resize(begin + inputs);
    for (size_t i = 0; i < cells.size(); ++i) {
      if (places.inputs[i] == kNoColumn) {
        continue;
      }
      const std::optional<double> number = NumberIn(cells[i]);
      const auto value = number ? static_cast<float>(*number) : NAN;
      if (!std::isfinite(value)) {
        return file.Bad(fmt::format(
            "column {} is {}, which is no finite number", i, Quoted(Clip(cells[i], 40))));
      }
      values_[begin + places.inputs[i]] = value;
    }
    for (const size_t place : places.labels) {
      uint32_t label = 0;
      if (wanted_.needs_labels()) {
        const std::string_view cell = TrimmedCell(cells[place]);
        PS_ASSIGN(
            label, task_ == proto::Task::kClasses ? ClassIn(cell, file) : TargetIn(cell, file));
      }
      labels_.push_back(label);
    }
    ++count_;
    return Status::Ok();
  }

  const InputsWanted& wanted_;
  const proto::Task task_;
  const size_t label_count_;
  uint64_t count_ = 0;
  std::vector<float> values_;
  std::vector<uint32_t> labels_;  // [rows, label_count_]
};

}  // namespace

Result<Inputs> OpenTables(const InputsWanted& wanted) {
  std::vector<std::string> paths = {wanted.path};
  if (wanted.is_folder) {
    const std::string end = wanted.card.data.format == proto::DatasetFormat::kTsv ? ".tsv" : ".csv";
    PS_ASSIGN(DataListing files, ListDataFiles(wanted.path, wanted.PartName(), end));
    if (files.paths.empty()) {
      return Status::NotFound(fmt::format("{} has no {}*{}", wanted.path, wanted.PartName(), end));
    }
    paths = std::move(files.paths);
  }
  RowReader rows(wanted);
  for (const std::string& path : paths) {
    PS_TRY(rows.Append(path));
  }
  return rows.Take();
}

}  // namespace ps::worker
