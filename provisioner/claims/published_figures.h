#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ps/base/status.h"

namespace ps::provisioner {

/// The cells of a row that were asked for, in the order of the columns.
struct FigureRow {
  std::vector<std::string> texts;
  std::vector<double> numbers;
  std::vector<int> counts;
};

/// Columns of a table by name.
struct FigureColumns {
  std::vector<std::string> texts = {};
  std::vector<std::string> numbers = {};  // finite, from 0 on
  std::vector<std::string> counts = {};   // whole numbers from 0 to kCountMost
};

/// The figures that papers and released programs have, as tables (CSV with a line of names) below a
/// folder.
class PublishedFigures {
 public:
  explicit PublishedFigures(std::string folder) : folder_(std::move(folder)) {}

  /// `file`: below the folder, as "parcae/costs.csv". Errors: ReadFile's; kInvalidArgument with
  /// file, line and column (no rows, a column or a cell is missing, a cell is no such number).
  Result<std::vector<FigureRow>> Read(const std::string& file, const FigureColumns& columns) const;

  static constexpr int kCountMost = 100'000;

 private:
  std::string folder_;
};

}  // namespace ps::provisioner
