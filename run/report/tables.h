#pragma once

#include <span>
#include <string>
#include <vector>

#include "ps/proto/messages.h"

namespace ps::run {

enum class Align : unsigned char { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kRight;
  // When the table is wider than allowed, columns go from the highest number down; 0 always stays.
  int drop_order = 0;
  std::string usual{};  // a column with nothing but this in its cells is left out; empty: stays
};

/// Rows of cells under titles, two spaces between columns, one unit per column named in its title.
class Table {
 public:
  /// Cells are clipped to `cell_width_max`.
  explicit Table(std::vector<Column> columns, size_t cell_width_max = kCellWidthMax)
      : columns_(std::move(columns)), cell_width_max_(cell_width_max) {}

  /// Requires: as many cells as columns.
  void AddRow(std::vector<std::string> cells);
  /// Lines that end with a newline and have no trailing spaces. `width_max` 0: as wide as it is.
  std::string Render(size_t width_max = 0) const;

  static constexpr size_t kCellWidthMax = 40;

 private:
  std::vector<Column> columns_;
  size_t cell_width_max_;
  std::vector<std::vector<std::string>> rows_;
};

/// "name   value" lines, names padded to one width.
std::string RenderPairs(const std::vector<std::pair<std::string, std::string>>& pairs);

/// "0.4725", "62.8103", of 10,000 and more "7.76e+08"; "nan" and "inf" as they are.
std::string FormatLoss(double loss);

/// "grad norm 1.25, perplexity 48.2"; empty: there are none.
std::string FormatFigures(std::span<const proto::Figure> figures);
/// The same of a run, where those of an evaluation are called by the samples that it is of.
std::string FormatFigures(const proto::JobStatus& status);

}  // namespace ps::run
