#include "tests/provisioner/model/csv_data.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "provisioner/catalog/csv_table.h"

namespace ps::provisioner {

std::vector<std::map<std::string, std::string>> LoadCsv(const std::string& path) {
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const Result<CsvTable> table = ParseCsv(text, ',', path);
  if (!table.ok() || table->rows.empty()) {
    ADD_FAILURE() << path << " can't be read";
    return {};
  }
  const std::vector<std::string>& names = table->rows[0].cells;
  std::vector<std::map<std::string, std::string>> rows;
  for (size_t i = 1; i < table->rows.size(); ++i) {
    std::map<std::string, std::string> row;
    for (size_t c = 0; c < names.size() && c < table->rows[i].cells.size(); ++c) {
      row[names[c]] = table->rows[i].cells[c];
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace ps::provisioner
