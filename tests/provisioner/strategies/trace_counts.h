#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "ps/base/file.h"

namespace ps::provisioner {

/// Counts of a trace of lines `time,count` at the begin of each minute.
inline std::vector<uint32_t> MinutesOfTrace(const std::string& path, double unit_s) {
  const Result<std::string> text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  std::vector<uint32_t> counts;
  std::istringstream lines(text.ok() ? *text : "");
  double at = 0;
  uint32_t count = 0;
  char comma = 0;
  while (lines >> at >> comma >> count) {
    const auto minute = static_cast<size_t>(at * unit_s / 60 + 1e-9);
    while (counts.size() <= minute) {
      counts.push_back(counts.empty() ? 0 : counts.back());
    }
    counts[minute] = count;
  }
  return counts;
}

inline std::vector<uint32_t> MinutesOfP3() {
  return MinutesOfTrace("tests/data/parcae/p3.csv", 0.001);
}

}  // namespace ps::provisioner
