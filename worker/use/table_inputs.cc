#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "ps/base/text.h"
#include "ps/json/json_reader.h"
#include "worker/data/data_listing.h"
#include "worker/data/table_file.h"
#include "worker/use/input_kinds.h"

namespace ps::worker {
namespace {

constexpr size_t kNoColumn = SIZE_MAX;

class RowSamples final : public Samples {
 public:
  RowSamples(std::vector<float> values, std::vector<uint32_t> labels)
      : values_(std::move(values)), labels_(std::move(labels)) {}

  void Read(uint64_t sample, uint64_t /*draw*/, std::span<float> input, std::span<uint32_t> labels)
      const override {
    std::copy_n(
        values_.begin() + static_cast<int64_t>(sample * input.size()), input.size(), input.begin());
    labels[0] = labels_[sample];
  }

 private:
  const std::vector<float> values_;
  const std::vector<uint32_t> labels_;
};

/// Which cell of a row goes where.
struct Places {
  std::vector<size_t> inputs;  // by cell: the model's input, or kNoColumn
  size_t label = kNoColumn;    // cell of the label
};

Result<Places> ByName(
    const ModelCard& card, const std::vector<std::string_view>& cells, const TableFile& file) {
  Places places;
  std::vector<bool> is_there(card.columns.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string_view name = TrimmedCell(cells[i]);
    const auto found = std::ranges::find(card.columns, name);
    const auto input = static_cast<size_t>(found - card.columns.begin());
    if (found == card.columns.end() && name == card.label_column) {
      places.label = i;
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

/// Without names: as many columns as inputs, or one more, which is the label's.
Result<Places> ByNumber(const ModelCard& card, size_t columns, const TableFile& file) {
  const auto inputs = static_cast<size_t>(card.input.channels);
  Places places;
  if (columns == inputs + 1) {
    const std::optional<double> number = NumberIn(card.data.label);
    places.label = number && *number >= 0 && *number <= static_cast<double>(inputs)
                       ? static_cast<size_t>(*number)
                       : inputs;
  } else if (columns != inputs) {
    return file.Bad(fmt::format(
        "{} columns; the model takes {}, with one more for labels if there are any",
        columns,
        inputs));
  }
  for (size_t i = 0; i < columns; ++i) {
    places.inputs.push_back(i == places.label ? kNoColumn : i - (i > places.label ? 1 : 0));
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
  const auto found = std::ranges::find_if(card.class_names, [&](const std::string& name) {
    return name == cell || (number && NumberIn(name) == number);
  });
  return found == card.class_names.end()
             ? std::nullopt
             : std::optional(static_cast<uint32_t>(found - card.class_names.begin()));
}

/// The rows of all files.
class RowReader {
 public:
  explicit RowReader(const InputsWanted& wanted) : wanted_(wanted) {}

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
    if (labels_.empty()) {
      return Status::InvalidArgument(wanted_.path + " has no rows");
    }
    Inputs inputs;
    inputs.count = labels_.size();
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
    if (wanted_.needs_labels() && places.label == kNoColumn) {
      return NoLabels(
          wanted_.path,
          wanted_.card.label_column.empty()
              ? "they are a column more"
              : fmt::format("they are the column {}", Quoted(wanted_.card.label_column)));
    }
    return places;
  }

  Status Row(
      const std::vector<std::string_view>& cells, const Places& places, const TableFile& file) {
    if (cells.size() != places.inputs.size()) {
      return file.Bad(
          fmt::format("{} columns; the first line has {}", cells.size(), places.inputs.size()));
    }
    const auto inputs = static_cast<size_t>(wanted_.card.input.channels);
    const size_t begin = values_.size();
    if ((begin + inputs) * sizeof(float) > kTableBytesMax) {
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
    uint32_t label = 0;
    if (wanted_.needs_labels()) {
      const std::string_view cell = TrimmedCell(cells[places.label]);
      const std::optional<uint32_t> known = ClassOf(wanted_.card, cell);
      if (!known) {
        return file.Bad(fmt::format(
            "label {} is none of the model's {} classes",
            Quoted(Clip(cell, 40)),
            wanted_.card.classes));
      }
      label = *known;
    }
    labels_.push_back(label);
    return Status::Ok();
  }

  const InputsWanted& wanted_;
  std::vector<float> values_;
  std::vector<uint32_t> labels_;
};

}  // namespace

Result<Inputs> OpenTables(const InputsWanted& wanted) {
  std::vector<std::string> paths = {wanted.path};
  if (wanted.is_folder) {
    const std::string end = wanted.card.data.format == proto::DatasetFormat::kTsv ? ".tsv" : ".csv";
    PS_ASSIGN(DataListing files, ListDataFiles(wanted.path, "test", end));
    if (files.paths.empty()) {
      return Status::NotFound(fmt::format("{} has no test*{}", wanted.path, end));
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
