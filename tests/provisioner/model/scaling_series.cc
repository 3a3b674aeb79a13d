#include "tests/provisioner/model/scaling_series.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "provisioner/catalog/csv_table.h"
#include "provisioner/model/least_squares.h"
#include "provisioner/profile/statistics.h"

namespace ps::provisioner {
namespace {

using Rows = std::vector<std::map<std::string, std::string>>;

Result<Rows> ReadRows(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    return Status::NotFound(path + " can't be read");
  }
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  PS_ASSIGN(const CsvTable table, ParseCsv(text, ',', path));
  Rows rows;
  for (size_t i = 1; i < table.rows.size(); ++i) {
    rows.emplace_back();
    for (size_t c = 0; c < table.rows[i].cells.size(); ++c) {
      rows.back()[table.rows[0].cells.at(c)] = table.rows[i].cells[c];
    }
  }
  return rows;
}

}  // namespace

std::string ScalingSeries::Name() const {
  return source + " " + device + " " + model + ", " + std::to_string(servers) + " PS";
}

Result<std::vector<ScalingSeries>> LoadScalingSeries(const std::string& folder) {
  PS_ASSIGN(const Rows sizes, ReadRows(folder + "/model_sizes.csv"));
  PS_ASSIGN(const Rows medians, ReadRows(folder + "/cmdare_cluster_speed.csv"));
  PS_ASSIGN(const Rows runs, ReadRows(folder + "/transient_ps_scaling.csv"));
  std::vector<ScalingSeries> series;
  std::vector<std::map<int, std::vector<double>>> speeds;
  const auto add = [&](const std::string& source,
                       const std::map<std::string, std::string>& row,
                       const std::string& model,
                       double steps_per_s) {
    ScalingSeries one{.source = source, .device = row.at("gpu"), .model = model, .steps_per_s = {}};
    one.servers = std::stoi(row.at("ps_count"));
    const auto known = std::ranges::find(series, one.Name(), &ScalingSeries::Name);
    const size_t index = static_cast<size_t>(known - series.begin());
    if (known == series.end()) {
      series.push_back(one);
      speeds.emplace_back();
    }
    speeds[index][std::stoi(row.at("workers"))].push_back(steps_per_s);
  };
  for (const auto& row : medians) {
    add("CM-DARE", row, row.at("model"), std::stod(row.at("median_steps_per_s")));
  }
  for (const auto& row : runs) {
    add("transient", row, "ResNet-32", std::stod(row.at("steps_per_s")));
  }
  for (size_t s = 0; s < series.size(); ++s) {
    for (const auto& [workers, values] : speeds[s]) {
      series[s].steps_per_s[workers] = Median(values);
    }
    for (const auto& row : sizes) {
      if (row.at("model") == series[s].model) {
        series[s].parameter_bytes = 4 * std::stod(row.at("parameters"));
        series[s].tensors = std::stod(row.at("tensors"));
      }
    }
  }
  return series;
}

}  // namespace ps::provisioner
