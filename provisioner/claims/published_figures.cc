#include "provisioner/claims/published_figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>

#include "provisioner/catalog/csv_table.h"
#include "ps/base/file.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// A row with the names of its columns.
class Cells {
 public:
  Cells(const std::string& path, const CsvTable::Row& names, const CsvTable::Row& row)
      : path_(path), names_(names), row_(row) {}

  Result<std::string> Text(const std::string& column) const {
    const auto at = std::ranges::find(names_.cells, column) - names_.cells.begin();
    const auto index = static_cast<size_t>(at);
    if (index >= names_.cells.size() || index >= row_.cells.size()) {
      return Wrong(column, "is missing");
    }
    return row_.cells[index];
  }

  Result<double> Number(const std::string& column) const {
    PS_ASSIGN(const std::string text, Text(column));
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || !std::isfinite(number) || number < 0) {
      return Wrong(column, fmt::format("'{}' is no number from 0 on", Printable(text)));
    }
    return number;
  }

  Result<int> Count(const std::string& column) const {
    PS_ASSIGN(const double number, Number(column));
    if (number > PublishedFigures::kCountMost || number != std::floor(number)) {
      return Wrong(
          column,
          fmt::format(
              "{:g} is no whole number from 0 to {}", number, PublishedFigures::kCountMost));
    }
    return static_cast<int>(number);
  }

 private:
  Status Wrong(const std::string& column, const std::string& what) const {
    return Status::InvalidArgument(fmt::format(
        "{}:{}: column {}: {}; install the data again", path_, row_.line, column, what));
  }

  const std::string& path_;
  const CsvTable::Row& names_;
  const CsvTable::Row& row_;
};

}  // namespace

Result<std::vector<FigureRow>> PublishedFigures::Read(
    const std::string& file, const FigureColumns& columns) const {
  const std::string path = folder_ + "/" + file;
  PS_ASSIGN(const std::string text, ReadFile(path));
  PS_ASSIGN(const CsvTable table, ParseCsv(text, ',', path));
  if (table.rows.size() < 2) {
    return Status::InvalidArgument(path + ": has no rows; install the data again");
  }
  std::vector<FigureRow> rows;
  for (size_t i = 1; i < table.rows.size(); ++i) {
    const Cells cells(path, table.rows.front(), table.rows[i]);
    FigureRow& row = rows.emplace_back();
    for (const std::string& column : columns.texts) {
      PS_ASSIGN(row.texts.emplace_back(), cells.Text(column));
    }
    for (const std::string& column : columns.numbers) {
      PS_ASSIGN(row.numbers.emplace_back(), cells.Number(column));
    }
    for (const std::string& column : columns.counts) {
      PS_ASSIGN(row.counts.emplace_back(), cells.Count(column));
    }
  }
  return rows;
}

}  // namespace ps::provisioner
