#include "run/report/tables.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ps::run {
namespace {

Table MakeTable() {
  Table table(
      {{"worker"},
       {"state", Align::kLeft},
       {"clock", Align::kRight, 1},
       {"host", Align::kLeft, 2}});
  table.AddRow({"0", "computing", "12", "a.example"});
  table.AddRow({"11", "lost", "3", "b"});
  return table;
}

TEST(TableTest, ColumnsAreAlignedWithoutTrailingSpaces) {
  EXPECT_EQ(
      MakeTable().Render(),
      "worker  state      clock  host\n"
      "     0  computing     12  a.example\n"
      "    11  lost           3  b\n");
}

TEST(TableTest, ANarrowTableDropsTheLeastImportantColumnsFirst) {
  EXPECT_EQ(
      MakeTable().Render(25),
      "worker  state      clock\n"
      "     0  computing     12\n"
      "    11  lost           3\n");
  EXPECT_EQ(
      MakeTable().Render(20),
      "worker  state\n"
      "     0  computing\n"
      "    11  lost\n");
}

TEST(TableTest, AColumnWithNothingButTheUsualIsLeftOut) {
  Table table({{"worker"}, {"device", Align::kLeft, 0, "cpu"}});
  table.AddRow({"0", "cpu"});
  EXPECT_EQ(table.Render(), "worker\n     0\n");
  table.AddRow({"1", "cuda:0"});
  EXPECT_EQ(table.Render(), "worker  device\n     0  cpu\n     1  cuda:0\n");
}

TEST(TableTest, ColumnsThatMustStayStayHoweverNarrow) {
  EXPECT_EQ(MakeTable().Render(1), MakeTable().Render(20));
}

TEST(TableTest, ColumnsLineUpBelowNamesInOtherScripts) {
  Table table({{"name", Align::kLeft}, {"n"}});
  table.AddRow({"J\xc3\xb6rg", "1"});
  table.AddRow({"\xe6\x97\xa5\xe6\x9c\xac", "2"});
  table.AddRow({"abcde", "3"});
  EXPECT_EQ(
      table.Render(),
      "name   n\n"
      "J\xc3\xb6rg   1\n"
      "\xe6\x97\xa5\xe6\x9c\xac   2\n"
      "abcde  3\n");
}

TEST(TableTest, LongCellsAreClipped) {
  Table table({{"name", Align::kLeft}});
  table.AddRow({std::string(100, 'x')});
  EXPECT_EQ(table.Render(), "name\n" + std::string(Table::kCellWidthMax - 1, 'x') + "~\n");
}

TEST(TableTest, ATableWithoutRowsIsItsTitles) {
  EXPECT_EQ(Table({{"a"}, {"b"}}).Render(), "a  b\n");
}

TEST(TableTest, PairsShareOneColumnOfNames) {
  EXPECT_EQ(RenderPairs({{"a", "1"}, {"long", ""}, {"bb", "2"}}), "a     1\nlong\nbb    2\n");
}

TEST(FormatLossTest, ALossIsShortHoweverLargeItIs) {
  EXPECT_EQ(FormatLoss(0.47251), "0.4725");
  EXPECT_EQ(FormatLoss(62.8103), "62.8103");
  EXPECT_EQ(FormatLoss(9999.5), "9999.5000");
  EXPECT_EQ(FormatLoss(776402802.7643), "7.76e+08");
  EXPECT_EQ(FormatLoss(-20000), "-2e+04");
  EXPECT_EQ(FormatLoss(INFINITY), "inf");
}

}  // namespace
}  // namespace ps::run
