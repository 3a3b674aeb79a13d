#include "ps/base/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace ps {
namespace {

TEST(TextTest, CountsAreGroupedByThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1'000), "1,000");
  EXPECT_EQ(FormatCount(1'234'567), "1,234,567");
}

TEST(TextTest, RatesKeepThreeDigits) {
  EXPECT_EQ(FormatRate(0), "0.00");
  EXPECT_EQ(FormatRate(0.714), "0.71");
  EXPECT_EQ(FormatRate(9.996), "10.0");
  EXPECT_EQ(FormatRate(12.34), "12.3");
  EXPECT_EQ(FormatRate(99.96), "100");
  EXPECT_EQ(FormatRate(2431.2), "2,431");
  EXPECT_EQ(FormatRate(-1), "?");
  EXPECT_EQ(FormatRate(std::numeric_limits<double>::infinity()), "?");
}

TEST(TextTest, WhatIsNoNumberHasNoSign) {
  EXPECT_EQ(FormatFixed(-std::numeric_limits<double>::quiet_NaN(), 4), "nan");
  EXPECT_EQ(FormatFixed(-1.25, 1), "-1.2");
}

TEST(TextTest, AmountsBelowTenCentsKeepTwoDigits) {
  EXPECT_EQ(FormatUsd(0), "0.00");
  EXPECT_EQ(FormatUsd(13.454), "13.45");
  EXPECT_EQ(FormatUsd(0.1), "0.10");
  EXPECT_EQ(FormatUsd(0.0996), "0.10");
  EXPECT_EQ(FormatUsd(0.0992), "0.099");
  EXPECT_EQ(FormatUsd(0.00449), "0.0045");
  EXPECT_EQ(FormatUsd(-0.00449), "-0.0045");
  EXPECT_EQ(FormatUsd(3e-9), "0.00");
}

TEST(TextTest, BytesUseBinaryUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1'023), "1023 B");
  EXPECT_EQ(FormatBytes(1'536), "1.5 KiB");
  EXPECT_EQ(FormatBytes((1U << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{5} << 40), "5.0 TiB");
}

TEST(TextTest, DurationsNameTwoUnitsFromAMinuteOn) {
  EXPECT_EQ(FormatDuration(0.42), "0.42 s");
  EXPECT_EQ(FormatDuration(12.34), "12.3 s");
  EXPECT_EQ(FormatDuration(59.96), "1m 00s");
  EXPECT_EQ(FormatDuration(65), "1m 05s");
  EXPECT_EQ(FormatDuration(3599.7), "1h 00m");
  EXPECT_EQ(FormatDuration(2 * 3600 + 7 * 60), "2h 07m");
  EXPECT_EQ(FormatDuration(3 * 86400 + 4 * 3600), "3d 04h");
  EXPECT_EQ(FormatDuration(-1), "?");
  EXPECT_EQ(FormatDuration(std::numeric_limits<double>::quiet_NaN()), "?");
}

TEST(TextTest, ClippedTextSaysSo) {
  EXPECT_EQ(Clip("abcdef", 6), "abcdef");
  EXPECT_EQ(Clip("abcdef", 4), "abc~");
  EXPECT_EQ(Clip("abcdef", 1), "~");
  EXPECT_EQ(Clip("abcdef", 0), "");
}

TEST(TextTest, ControlCharactersNeverReachATerminal) {
  EXPECT_EQ(Printable("a\x1b[2Jb\n\xff"), "a?[2Jb??");
}

TEST(TextTest, TheNearestNameIsGivenOnlyWhenItIsNear) {
  const std::vector<std::string> names{"train", "status", "why", "stop"};
  EXPECT_EQ(NearestName("trian", names), "train");
  EXPECT_EQ(NearestName("statsu", names), "status");
  EXPECT_EQ(NearestName("stpo", names), "stop");
  EXPECT_EQ(NearestName("deploy", names), "");
  EXPECT_EQ(NearestName("", names), "");
}

}  // namespace
}  // namespace ps
