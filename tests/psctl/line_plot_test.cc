#include "psctl/view/line_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ps::psctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

size_t CountOf(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

std::string Drawn(const std::vector<PlotLine>& lines) {
  return DrawPlot("t", {{"panel", lines}}, {.end = 100, .seconds = 100});
}

TEST(LinePlotTest, AxesEndAtRoundNumbers) {
  const auto of = [](double most) { return Drawn({{'b', {{0, 0}, {100, most}}}}); };
  EXPECT_THAT(of(31), AllOf(HasSubstr(">40</text>"), HasSubstr(">10</text>")));
  EXPECT_THAT(of(31), Not(HasSubstr(">31</text>")));
  EXPECT_THAT(of(31), HasSubstr("736.0,107.0\"/>")) << "31 of 40 parts of the way up";
  EXPECT_THAT(of(40), AllOf(HasSubstr(">40</text>"), Not(HasSubstr(">50</text>"))));
  EXPECT_THAT(of(2.3), AllOf(HasSubstr(">3</text>"), HasSubstr(">1</text>")));
  EXPECT_THAT(of(0.37), AllOf(HasSubstr(">0.4</text>"), HasSubstr(">0.1</text>")));
  EXPECT_THAT(of(0.0004), HasSubstr(">0.0004</text>"));
  EXPECT_THAT(of(7123), AllOf(HasSubstr(">8,000</text>"), HasSubstr(">2,000</text>")));
  EXPECT_THAT(of(6.1e7), AllOf(HasSubstr(">80M</text>"), HasSubstr(">20M</text>")));
  EXPECT_THAT(of(1.2e7), AllOf(HasSubstr(">15M</text>"), HasSubstr(">5M</text>")));
  EXPECT_THAT(of(0), HasSubstr("</svg>"));
}

TEST(LinePlotTest, LinesThatLieOnEachOtherAreAllSeen) {
  const PlotLine rising = {'b', {{0, 0}, {100, 10}}};
  PlotLine same = rising;
  same.style = 'c';
  const PlotLine other = {'d', {{0, 10}, {100, 0}}};
  EXPECT_EQ(CountOf(Drawn({rising, other}), "stroke-dasharray"), 0U) << "they cross";
  const std::string both = Drawn({rising, same, other});
  EXPECT_EQ(CountOf(both, "stroke-dasharray"), 1U);
  EXPECT_THAT(both, HasSubstr(R"(<polyline class="line c" stroke-dasharray="6 6")"));
  PlotLine third = rising;
  third.style = 'e';
  const std::string all = Drawn({rising, same, third});
  EXPECT_THAT(all, HasSubstr(R"(<polyline class="line c" stroke-dasharray="12 6")"));
  EXPECT_THAT(all, HasSubstr(R"(<polyline class="line e" stroke-dasharray="6 12")"));
  const auto until = [](double at) {
    return PlotLine{'f', {{0, 0}, {at, at / 10}, {100, at / 10}}};
  };
  EXPECT_EQ(CountOf(Drawn({rising, until(40)}), "stroke-dasharray"), 1U);
  EXPECT_EQ(CountOf(Drawn({rising, until(5)}), "stroke-dasharray"), 0U);
  PlotLine behind = rising;
  behind.is_background = true;
  const std::string wide = Drawn({rising, behind});
  EXPECT_THAT(wide, Not(HasSubstr("stroke-dasharray")));
  EXPECT_LT(wide.find("line b wide"), wide.find("\"line b\"")) << "below the other one";
}

TEST(LinePlotTest, NamesAreText) {
  const std::string plot =
      DrawPlot("a & b", {{"<panel>", {}, {{'b', "x<y"}}}}, {.end = 1, .seconds = 1, .of = ""});
  EXPECT_THAT(
      plot,
      AllOf(
          HasSubstr(">a &amp; b</text>"),
          HasSubstr(">&lt;panel&gt;</text>"),
          HasSubstr(">x&lt;y</text>")));
  EXPECT_EQ(StemOf("traces/p3.csv"), "p3");
}

/// A spike of one point among a million is drawn, and the file stays small.
TEST(LinePlotTest, ManyPointsAreDrawnByTheirExtremes) {
  PlotLine line = {'b', {}};
  for (int i = 0; i < 1'000'000; ++i) {
    line.points.emplace_back(i * 1e-4, i == 500'001 ? 10 : i % 2);
  }
  const std::string plot = Drawn({line});
  EXPECT_LT(plot.size(), 200'000U);
  EXPECT_THAT(plot, HasSubstr("410.0,80.0")) << "the middle of the top";
}

}  // namespace
}  // namespace ps::psctl
