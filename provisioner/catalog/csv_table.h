#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::provisioner {

/// Rows of texts, each with the line of its file that it begins in.
struct CsvTable {
  struct Row {
    int line = 0;
    std::vector<std::string> cells;
  };

  std::vector<Row> rows;
};

/// Text in RFC 4180 form: cells in double quotes may hold separators, newlines and doubled quotes.
/// Empty lines are left out. `file` names the text in errors. Errors: kInvalidArgument, a quote
/// that is never closed.
Result<CsvTable> ParseCsv(std::string_view text, char separator, const std::string& file);

}  // namespace ps::provisioner
