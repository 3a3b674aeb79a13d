#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ps::bench {

/// A recorded trace, and the seconds of its unit of time.
struct TraceFile {
  std::string name;
  double unit_s = 1;
};

/// The traces of tests/data, and those that arguments `UNIT=FILE` name (UNIT: s, ms or h), which
/// are taken out of the arguments.
inline std::vector<TraceFile> TakeTraces(int* argc, char** argv) {
  std::vector<TraceFile> files = {
      {"tests/data/parcae/p3.csv", 0.001},
      {"tests/data/bamboo/g4dn_us-east-1c.csv", 1},
      {"tests/data/bamboo/g4dn_us-east-1d.csv", 1},
      {"tests/data/bamboo/p2_hours.csv", 3600}};
  const std::pair<std::string, double> units[] = {{"s=", 1}, {"ms=", 0.001}, {"h=", 3600}};
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string argument = argv[i];
    const auto* const unit = std::ranges::find_if(
        units, [&](const auto& one) { return argument.starts_with(one.first); });
    if (unit == std::end(units)) {
      argv[kept++] = argv[i];
    } else {
      files.push_back({argument.substr(unit->first.size()), unit->second});
    }
  }
  *argc = kept;
  return files;
}

}  // namespace ps::bench
