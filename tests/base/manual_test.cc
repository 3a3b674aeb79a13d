#include "ps/process/manual.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ManualTest, TextIsBrokenAtBlanksAndItsOwnLinesStay) {
  EXPECT_EQ(WrapText("aa bb cc", 1, 6), " aa bb\n cc\n");
  EXPECT_EQ(WrapText("aaaaaaaaaa b", 0, 4), "aaaaaaaaaa\nb\n");
  EXPECT_EQ(WrapText("a\n\nb", 2, 10), "  a\n\n  b\n");
}

TEST(ManualTest, ALongFlagHasItsTextBelow) {
  const std::string long_name = "--" + std::string(40, 'x');
  const Manual manual = {"p", "s", "", {{"Flags", "", "", {{long_name, "", "Text."}}, {}}}};
  EXPECT_THAT(RenderHelp(manual), HasSubstr(long_name + "\n" + std::string(34, ' ') + "Text.\n"));
}

TEST(ManualTest, NothingInAManPageIsTakenForACommandOfRoff) {
  const Manual manual = {
      "p",
      "s",
      "",
      {{"Flags", "", ".so /etc/passwd", {{"--a", "N", "'x \\n"}}, {".nf is a line"}}}};
  const std::string page = RenderManPage(manual, "1.0");
  EXPECT_THAT(page, HasSubstr("\n\\&.so /etc/passwd\n"));
  EXPECT_THAT(page, HasSubstr("\n.TP\n.B \\-\\-a N\n\\&'x \\en\n"));
  EXPECT_THAT(page, HasSubstr("\n\\&.nf is a line\n"));
  EXPECT_THAT(page, Not(HasSubstr("\n.so")));
}

TEST(ManualTest, CommandsAreSubsectionsWithTheirSynopsis) {
  const Manual manual = {
      "p", "s", "", {{"Commands", "", "Both.", {}, {}}, {"p run", "p run FILE", "Runs.", {}, {}}}};
  EXPECT_THAT(
      RenderManPage(manual, "1.0"),
      HasSubstr(".SH \"COMMANDS\"\nBoth.\n.PP\n.SS \"p run\"\n.B p run FILE\n.PP\nRuns.\n"));
}

}  // namespace
}  // namespace ps
