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

/// Panels share the time from 0 to `end`; each begins at 0 and ends at its largest value. `below`:
/// what the end of the time is called.
std::string DrawPlot(
    std::string_view title,
    const std::vector<PlotPanel>& panels,
    double end,
    std::string_view below);

}  // namespace ps::psctl
