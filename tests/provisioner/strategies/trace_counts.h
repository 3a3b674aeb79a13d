#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "ps/base/file.h"

namespace ps::provisioner {

/// Counts of a trace of lines `time,count` at the begin of each minute, as psctl's CountsOf.
inline std::vector<uint32_t> MinutesOfTrace(const std::string& path, double unit_s) {
  const Result<std::string> text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  std::vector<uint32_t> counts;
  std::istringstream lines(text.ok() ? *text : "");
  double at = 0;
  uint32_t count = 0;
  uint32_t until_now = 0;
  char comma = 0;
  const auto next_s = [&] { return static_cast<double>(counts.size()) * 60; };
  while (lines >> at >> comma >> count) {
    while (next_s() < at * unit_s) {
      counts.push_back(until_now);
    }
    until_now = count;
  }
  if (next_s() <= at * unit_s) {
    counts.push_back(until_now);
  }
  return counts;
}

inline std::vector<uint32_t> MinutesOfP3() {
  return MinutesOfTrace("tests/data/parcae/p3.csv", 0.001);
}

}  // namespace ps::provisioner
