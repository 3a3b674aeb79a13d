#include "worker/data/table/table_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <utility>

#include "worker/data/samples.h"

namespace ps::worker {
namespace {

constexpr size_t kTableReadBytes = size_t{1} << 16;
constexpr size_t kShownBytesMax = 40;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// A cell as an error shows it: short, on one line, without bytes that a terminal would take.
std::string Shown(std::string_view cell) {
  std::string text(cell.substr(0, kShownBytesMax));
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return "\"" + text + (cell.size() > kShownBytesMax ? "...\"" : "\"");
}

std::string ColumnName(const TableColumns& columns, size_t column) {
  return columns.names.empty() ? fmt::format("column {}", column)
                               : fmt::format("column {}", Shown(columns.names[column]));
}

/// "" when the cell is a finite number, else what is wrong with it.
std::string ReadNumber(std::string_view cell, float* value) {
  if (TrimmedCell(cell).empty()) {
    return "is empty; every cell needs a number";
  }
  const std::optional<double> number = NumberIn(cell);
  if (!number) {
    return fmt::format("is {}, which is no number", Shown(cell));
  }
  *value = static_cast<float>(*number);
  if (!std::isfinite(*value)) {
    return fmt::format("is {}; allowed: finite numbers that fit 32 bits", Shown(cell));
  }
  return {};
}

/// Which column a text of data.label or data.labels names: a name of the header, or a number from
/// 0.
Result<size_t> FindLabel(
    const std::string& label,
    const char* field,
    const TableColumns& columns,
    const TableFile& file) {
  const auto named = std::ranges::find(columns.names, label);
  if (named != columns.names.end()) {
    return static_cast<size_t>(named - columns.names.begin());
  }
  size_t number = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
  if (error == std::errc() && end == label.data() + label.size() && number < columns.count) {
    return number;
  }
  return file.Bad(fmt::format(
      "no column {}, which {} asks for; allowed: {}a number from 0 to {}",
      Shown(label),
      field,
      columns.names.empty() ? "" : "a name of the header, or ",
      columns.count - 1));
}

/// Names of columns are numbers in one case: those that pandas gives columns without names.
bool AreNumberedColumns(const std::vector<double>& numbers) {
  constexpr size_t kLeast = 3;  // fewer may be a row by chance
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != numbers.front() + static_cast<double>(i)) {
      return false;
    }
  }
  return numbers.size() >= kLeast && (numbers.front() == 0 || numbers.front() == 1);
}

/// A first row that was taken for the names of the columns would be lost in silence.
Status CheckIsHeader(
    const std::vector<std::string_view>& cells,
    const std::vector<bool>& is_label,
    const TableFile& file) {
  std::vector<double> numbers;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::optional<double> number = is_label[i] ? std::nullopt : NumberIn(cells[i]);
    if (!is_label[i] && !number) {
      return Status::Ok();
    }
    if (number) {
      numbers.push_back(*number);
    }
  }
  return AreNumberedColumns(numbers)
             ? Status::Ok()
             : file.Bad(
                   "the header has numbers where names of columns belong, so it may be a row; "
                   "set data.header to false if the files have no header, else give the columns "
                   "names such as x0");
}

/// data.labels, else data.label, else the last column.
Status SetLabels(const proto::DataConfig& config, const TableFile& file, TableColumns* columns) {
  for (const std::string& label : config.labels) {
    PS_ASSIGN(const size_t column, FindLabel(label, "data.labels", *columns, file));
    columns->labels.push_back(column);
  }
  if (config.labels.empty() && config.label.empty()) {
    columns->labels.push_back(columns->count - 1);
  } else if (config.labels.empty()) {
    PS_ASSIGN(const size_t column, FindLabel(config.label, "data.label", *columns, file));
    columns->labels.push_back(column);
  }
  columns->is_label.assign(columns->count, false);
  for (const size_t column : columns->labels) {
    if (columns->is_label[column]) {
      return file.Bad(fmt::format(
          "data.labels names {} twice, by name and by number", ColumnName(*columns, column)));
    }
    columns->is_label[column] = true;
  }
  return columns->features() > 0
             ? Status::Ok()
             : file.Bad("data.labels names all columns; at least one is left to learn from");
}

Status SetColumns(
    const proto::DataConfig& config,
    const std::vector<std::string_view>& cells,
    const TableFile& file,
    TableColumns* columns) {
  if (cells.size() < 2) {
    return file.Bad("one column; a table has one of labels and at least one of numbers");
  }
  columns->count = cells.size();
  if (config.header) {
    for (const std::string_view cell : cells) {
      columns->names.emplace_back(TrimmedCell(cell));
    }
  }
  return SetLabels(config, file, columns);
}

Status SameHeader(
    const std::vector<std::string_view>& cells,
    const TableFile& file,
    const TableColumns& columns) {
  const bool is_same =
      std::ranges::equal(cells, columns.names, [](std::string_view a, const std::string& b) {
        return TrimmedCell(a) == b;
      });
  return is_same ? Status::Ok()
                 : file.Bad(
                       "another header than that of the first file; all parts share one, or have "
                       "none and data.header is false");
}

}  // namespace

std::string_view TrimmedCell(std::string_view cell) {
  const size_t first = cell.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return cell.substr(first, cell.find_last_not_of(" \t") - first + 1);
}

Result<TableColumns> ReadTableColumns(const std::string& path, const proto::DataConfig& config) {
  const bool is_tsv = config.format == proto::DatasetFormat::kTsv;
  PS_ASSIGN(TableFile file, TableFile::Open(path, is_tsv ? '\t' : ','));
  std::vector<std::string_view> cells;
  PS_ASSIGN(const bool has_row, file.Next(&cells));
  if (!has_row) {
    return Status::Corruption(path + ": no rows");
  }
  TableColumns columns;
  PS_TRY(SetColumns(config, cells, file, &columns));
  return columns;
}

std::optional<double> NumberIn(std::string_view cell) {
  std::string_view text = TrimmedCell(cell);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
    return std::nullopt;
  }
  return error == std::errc::result_out_of_range ? std::numeric_limits<double>::infinity() : number;
}

Result<TableFile> TableFile::Open(const std::string& path, char separator, LoadProgress* progress) {
  PS_ASSIGN(DataFile file, DataFile::Open(path, progress));
  return TableFile(path, separator, std::move(file));
}

Status TableFile::Bad(std::string_view message) const {
  return Status::Corruption(fmt::format("{}: line {}: {}", path_, line_number_, message));
}

Result<bool> TableFile::NextLine() {
  line_.clear();
  bool has_any = false;
  while (true) {
    if (read_at_ == read_.size()) {
      read_.resize(kTableReadBytes);
      read_at_ = 0;
      PS_ASSIGN(const size_t got, file_.ReadSome(read_));
      read_.resize(got);
      if (got == 0) {
        break;
      }
    }
    if (!has_any) {
      ++line_number_;
      has_any = true;
    }
    const auto begin = read_.begin() + static_cast<int64_t>(read_at_);
    const auto end = std::find(begin, read_.end(), uint8_t{'\n'});
    line_.append(begin, end);
    read_at_ = static_cast<size_t>(end - read_.begin());
    if (line_.size() > kTableLineBytesMax) {
      return Bad(fmt::format("longer than {} bytes", kTableLineBytesMax));
    }
    if (end != read_.end()) {
      ++read_at_;
      break;
    }
  }
  if (line_.ends_with('\r')) {
    line_.pop_back();
  }
  if (line_number_ == 1 && line_.starts_with(kByteOrderMark)) {
    line_.erase(0, kByteOrderMark.size());
  }
  return has_any;
}

Result<bool> TableFile::Next(std::vector<std::string_view>* cells) {
  PS_ASSIGN(bool has_line, NextLine());
  if (has_line && line_.empty()) {
    const uint64_t empty = line_number_;
    while (has_line && line_.empty()) {
      PS_ASSIGN(has_line, NextLine());
    }
    if (has_line) {
      line_number_ = empty;
      return Bad("empty, and there are more behind it; leave it out");
    }
  }
  if (!has_line) {
    return false;
  }
  PS_TRY(Split(cells));
  return true;
}

Status TableFile::Split(std::vector<std::string_view>* cells) {
  cells->clear();
  size_t at = 0;
  while (true) {
    if (separator_ == ',' && at < line_.size() && line_[at] == '"') {
      PS_ASSIGN(const std::string_view cell, Quoted(&at));
      cells->push_back(cell);
    } else {
      const size_t end = std::min(line_.find(separator_, at), line_.size());
      cells->push_back(std::string_view(line_).substr(at, end - at));
      at = end;
    }
    if (cells->size() > kTableColumnsMax) {
      return Bad(fmt::format("more than {} columns", kTableColumnsMax));
    }
    if (at == line_.size()) {
      return Status::Ok();
    }
    ++at;  // the separator
  }
}

/// Unpacks the quoted cell in its place within the line, and stops behind it.
Result<std::string_view> TableFile::Quoted(size_t* at) {
  const size_t begin = *at + 1;
  size_t to = begin;
  for (size_t from = begin; from < line_.size(); ++from) {
    if (line_[from] != '"') {
      line_[to++] = line_[from];
      continue;
    }
    if (from + 1 == line_.size() || line_[from + 1] == separator_) {
      *at = from + 1;
      return std::string_view(line_).substr(begin, to - begin);
    }
    if (line_[from + 1] != '"') {
      return Bad(fmt::format("byte {}: text behind a closing quote", from + 1));
    }
    line_[to++] = '"';
    ++from;
  }
  return Bad("a quote is not closed; a cell ends on the line on which it begins");
}

namespace {

/// `may_be_header`: a first line that is none of numbers has names.
Status AppendValues(
    const std::vector<std::string_view>& cells,
    const TableColumns& columns,
    const TableFile& file,
    bool may_be_header,
    TableRows* rows) {
  for (size_t i = 0; i < cells.size(); ++i) {
    float value = 0;
    if (columns.is_label[i]) {
      continue;
    }
    if (const std::string wrong = ReadNumber(cells[i], &value); !wrong.empty()) {
      const bool is_header = may_be_header && file.line_number() == 1;
      return file.Bad(
          ColumnName(columns, i) + " " + wrong +
          (is_header ? "; data.header is false: set it to true if this line names the columns"
                     : ""));
    }
    rows->values.push_back(value);
  }
  return Status::Ok();
}

using KnownNames = std::unordered_map<std::string, uint32_t>;

/// The name of the row's class.
Status AppendName(
    std::string_view cell,
    const TableColumns& columns,
    const TableFile& file,
    KnownNames* known,
    TableRows* rows) {
  const std::string column = ColumnName(columns, columns.labels[0]);
  const std::string label(TrimmedCell(cell));
  if (label.empty()) {
    return file.Bad(column + " is empty; every row needs a label");
  }
  const auto [found, is_new] =
      known->emplace(label, static_cast<uint32_t>(rows->label_names.size()));
  if (is_new) {
    if (rows->label_names.size() == kTableClassesMax) {
      return file.Bad(fmt::format(
          "more than {} different labels in {}; is it what data.label means? If it has numbers to "
          "predict, end model.layers with the loss mse",
          kTableClassesMax,
          column));
    }
    rows->label_names.push_back(label);
    rows->first_places.push_back(std::string(file.Bad("").message()));
  }
  rows->labels.push_back(found->second);
  return Status::Ok();
}

/// The row's numbers that are learnt.
Status AppendTargets(
    const std::vector<std::string_view>& cells,
    const TableColumns& columns,
    const TableFile& file,
    proto::Task task,
    TableRows* rows) {
  for (const size_t column : columns.labels) {
    float target = 0;
    std::string wrong = ReadNumber(cells[column], &target);
    if (!wrong.empty()) {
      wrong += "; the model's loss learns numbers from it (classes: softmax_cross_entropy)";
    } else {
      wrong = WrongTarget(task, target);
    }
    if (!wrong.empty()) {
      return file.Bad(ColumnName(columns, column) + " " + wrong);
    }
    rows->targets.push_back(target);
  }
  return Status::Ok();
}

}  // namespace

Status AppendTable(
    const std::string& path,
    const proto::DataConfig& config,
    proto::Task task,
    TableColumns* columns,
    TableRows* rows,
    LoadProgress* progress) {
  const bool is_tsv = config.format == proto::DatasetFormat::kTsv;
  PS_ASSIGN(TableFile file, TableFile::Open(path, is_tsv ? '\t' : ',', progress));
  KnownNames known;
  for (uint32_t i = 0; i < rows->label_names.size(); ++i) {
    known[rows->label_names[i]] = i;
  }
  std::vector<std::string_view> cells;
  bool is_header = config.header;
  while (true) {
    PS_ASSIGN(const bool has_row, file.Next(&cells));
    if (!has_row) {
      break;
    }
    const bool is_first = columns->count == 0;
    if (is_first) {
      PS_TRY(SetColumns(config, cells, file, columns));
    }
    if (std::exchange(is_header, false)) {
      PS_TRY(CheckIsHeader(cells, columns->is_label, file));
      PS_TRY(is_first ? Status::Ok() : SameHeader(cells, file, *columns));
      continue;
    }
    if (cells.size() != columns->count) {
      return file.Bad(
          fmt::format("{} columns; the first line has {}", cells.size(), columns->count));
    }
    PS_TRY(AppendValues(cells, *columns, file, !config.header, rows));
    PS_TRY(
        task == proto::Task::kClasses
            ? AppendName(cells[columns->labels[0]], *columns, file, &known, rows)
            : AppendTargets(cells, *columns, file, task, rows));
    ++rows->count;
    if (rows->values.size() * sizeof(float) > kTableBytesMax) {
      return file.Bad(fmt::format("more than {} bytes of numbers", kTableBytesMax));
    }
  }
  return is_header && columns->count == 0 ? file.Bad("the file is empty") : Status::Ok();
}

}  // namespace ps::worker
