#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ps::psctl {

/// Lines over time, one panel above the other, as SVG for light and dark pages.
struct PlotLine {
  char style = 'a';                               // a to h: its colour; 'a' is grey
  std::vector<std::pair<double, double>> points;  // time, value; what is not finite is left out
};

struct PlotPanel {
  std::string title;  // plain text of the program's own, or Printable, without < and &
  std::vector<PlotLine> lines;
  std::vector<std::pair<char, std::string>> legend = {};  // style, name; empty: none
};

/// The time that all panels share.
struct PlotTime {
  double end = 0;       // of the points; they begin at 0
  double seconds = 0;   // that stands for on the axis
  std::string of = {};  // what follows the last label, " of the trace"
};

/// Each panel begins at 0 and ends at its largest value.
std::string DrawPlot(
    std::string_view title, const std::vector<PlotPanel>& panels, const PlotTime& time);

}  // namespace ps::psctl
