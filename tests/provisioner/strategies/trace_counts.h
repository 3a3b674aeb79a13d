#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "ps/base/file.h"

namespace ps::provisioner {

/// Counts of tests/data/parcae/p3.csv at the begin of each minute.
inline std::vector<uint32_t> MinutesOfP3() {
  const Result<std::string> text = ReadFile("tests/data/parcae/p3.csv");
  EXPECT_TRUE(text.ok()) << text.status();
  std::vector<uint32_t> counts;
  std::istringstream lines(text.ok() ? *text : "");
  uint64_t at_ms = 0;
  uint32_t count = 0;
  char comma = 0;
  while (lines >> at_ms >> comma >> count) {
    const uint64_t minute = at_ms / 60'000;
    while (counts.size() <= minute) {
      counts.push_back(counts.empty() ? 0 : counts.back());
    }
    counts[minute] = count;
  }
  return counts;
}

}  // namespace ps::provisioner
