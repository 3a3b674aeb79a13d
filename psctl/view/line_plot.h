#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ps::psctl {

// Lines over time, one panel above the other, as SVG for light and dark pages.

struct PlotLine {
  char style = 'a';                               // a to h: its colour; 'a' is grey
  std::vector<std::pair<double, double>> points;  // time, value; what is not finite is left out
  bool is_background = false;                     // wider, so that lines over it do not hide it
};

struct PlotPanel {
  std::string title;  // plain text of the program's own, or Printable
  std::vector<PlotLine> lines;
  std::vector<std::pair<char, std::string>> legend = {};  // style, name; empty: none
};

/// Letters of a title for which there is room.
inline constexpr size_t kTitleWidth = 84;

/// The colours and letters of all plots: classes page, ink, soft, axis, title and those of lines.
std::string_view PlotStyle();

/// How a title names a file: "p3" of "traces/p3.csv". Printable.
std::string StemOf(const std::string& path);

/// The time that all panels share.
struct PlotTime {
  double end = 0;       // of the points; they begin at 0
  double seconds = 0;   // that stands for on the axis
  std::string of = {};  // what follows the last label, " of the trace"
};

/// Each panel begins at 0 and ends at the next round number above its largest value. Lines that lie
/// on each other for long are dashed, so that each of them is seen. `title` as the panels'.
std::string DrawPlot(
    std::string_view title, const std::vector<PlotPanel>& panels, const PlotTime& time);

}  // namespace ps::psctl
