#include "ps/base/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "ps/base/utf8.h"

namespace ps {
namespace {

TEST(TextTest, WhatXmlReadsAsMarksIsWrittenOut) {
  EXPECT_EQ(XmlText("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
  EXPECT_EQ(XmlText(""), "");
}

TEST(TextTest, CountsAreGroupedByThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1'000), "1,000");
  EXPECT_EQ(FormatCount(1'234'567), "1,234,567");
}

TEST(TextTest, RatesKeepThreeDigits) {
  EXPECT_EQ(FormatRate(0), "0.00");
  EXPECT_EQ(FormatRate(0.714), "0.71");
  EXPECT_EQ(FormatRate(0.0996), "0.10");
  EXPECT_EQ(FormatRate(0.05), "0.05");
  EXPECT_EQ(FormatRate(0.00423), "0.0042");
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
  EXPECT_EQ(
      Printable("a\xc2\x9b"
                "2J\x7f"),
      "a?2J?")
      << "CSI as one character";
}

TEST(TextTest, NamesInUtf8AreShownAsTheyAre) {
  for (const char* name :
       {"J\xc3\xb6rg/\xe6\x97\xa5\xe6\x9c\xac",
        "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d",
        "e\xcc\x81",
        "\xf0\x9f\x9a\x80",
        "\xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae"}) {
    EXPECT_EQ(Printable(name), name);
  }
}

TEST(TextTest, WhatDeceivesOrIsNoUtf8IsReplacedCharacterByCharacter) {
  EXPECT_EQ(
      Printable("a\xe2\x80\xae"
                "cod.exe"),
      "a?cod.exe")
      << "right-to-left override";
  EXPECT_EQ(Printable("\xe2\x81\xa6\xe2\x80\x8b\xef\xbb\xbf"), "???") << "isolate, zero width, BOM";
  EXPECT_EQ(Printable("\xe2\x80\xa8"), "?") << "line separator";
  EXPECT_EQ(Printable("\xed\xa0\x80"), "???") << "half of a surrogate pair";
  EXPECT_EQ(Printable("\xc0\xaf\xf5\x80"), "????") << "too long, too large";
  EXPECT_EQ(Printable("\xe6\x97"), "??") << "cut off";
  EXPECT_EQ(Printable("\xf3\xa0\x81\x81"), "?") << "tag";
}

TEST(TextTest, WidthsAreColumnsOfATerminal) {
  EXPECT_EQ(TextWidth("abc"), 3U);
  EXPECT_EQ(TextWidth("J\xc3\xb6rg"), 4U);
  EXPECT_EQ(TextWidth("\xe6\x97\xa5\xe6\x9c\xac"), 4U);
  EXPECT_EQ(TextWidth("e\xcc\x81"), 1U);
  EXPECT_EQ(TextWidth("\xff\xe6"), 2U);
}

TEST(TextTest, ClippingKeepsCharactersWhole) {
  EXPECT_EQ(Clip("J\xc3\xb6rg", 4), "J\xc3\xb6rg");
  EXPECT_EQ(Clip("J\xc3\xb6rg", 3), "J\xc3\xb6~");
  EXPECT_EQ(Clip("\xe6\x97\xa5\xe6\x9c\xac", 4), "\xe6\x97\xa5\xe6\x9c\xac");
  EXPECT_EQ(Clip("\xe6\x97\xa5\xe6\x9c\xac", 3), "\xe6\x97\xa5~");
  EXPECT_EQ(Clip("\xe6\x97\xa5\xe6\x9c\xac", 2), "~");
  std::string accents = "e";
  for (int i = 0; i < 1000; ++i) {
    accents += "\xcc\x81";
  }
  EXPECT_LE(Clip(accents, 10).size(), 40U);
  EXPECT_EQ(Printable(Clip(accents, 10)), Clip(accents, 10));
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
