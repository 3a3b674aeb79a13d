#pragma once

#include <string>
#include <vector>

namespace ps::psctl {

enum class Align : unsigned char { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kRight;
  // When the table is wider than allowed, columns go from the highest number down; 0 always stays.
  int drop_order = 0;
};

/// Rows of cells under titles, two spaces between columns, one unit per column named in its title.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Requires: as many cells as columns.
  void AddRow(std::vector<std::string> cells);
  /// Lines that end with a newline and have no trailing spaces. `width_max` 0: as wide as it is.
  /// Cells are clipped to `kCellWidthMax`.
  std::string Render(size_t width_max = 0) const;

  static constexpr size_t kCellWidthMax = 40;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// "name   value" lines, names padded to one width.
std::string RenderPairs(const std::vector<std::pair<std::string, std::string>>& pairs);

}  // namespace ps::psctl
