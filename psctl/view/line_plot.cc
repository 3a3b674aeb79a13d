#include "psctl/view/line_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ps/base/text.h"

namespace ps::psctl {
namespace {

constexpr size_t kPlotPointsMax = 1000;
constexpr double kPlotLeft = 84;
constexpr double kPlotRight = 736;
constexpr double kPanelHeight = 120;
constexpr double kLegendWidth = 80;

constexpr std::string_view kPlotStyle = R"(<style>
  .page { fill: #ffffff } .ink { fill: #1b1f24 } .soft { fill: #57606a } .axis { stroke: #d0d7de }
  .line { fill: none; stroke-width: 1.5 } .a { stroke: #57606a } .b { stroke: #0550ae }
  .c { stroke: #bc4c00 } .d { stroke: #116329 } .e { stroke: #8250df } .f { stroke: #a40e26 }
  .g { stroke: #9a6700 } .h { stroke: #1b7c83 }
  text { font: 12px system-ui, sans-serif } .title { font-size: 17px; font-weight: 600 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .ink { fill: #e6edf3 } .soft { fill: #9da7b3 } .axis { stroke: #30363d }
    .a { stroke: #9da7b3 } .b { stroke: #79c0ff } .c { stroke: #ffa657 } .d { stroke: #7ee787 }
    .e { stroke: #d2a8ff } .f { stroke: #ff7b72 } .g { stroke: #e3b341 } .h { stroke: #76e3ea }
  }
</style>
)";

constexpr double kTicksMax = 8;
// The label at the end of the time.
constexpr double kLastLabelWidth = 64;
constexpr double kLetterWidth = 6.5;  // of what follows it

/// Seconds between two ticks, and the unit that they are told in.
struct TickStep {
  double seconds = 0;
  double unit_s = 0;
  const char* unit = nullptr;
};

TickStep StepOf(double end_s) {
  constexpr struct {
    double unit_s;
    const char* unit;
    double counts[8];
  } units[] = {
      {1, "s", {1, 2, 5, 10, 15, 20, 30, 30}},
      {60, "m", {1, 2, 5, 10, 15, 20, 30, 30}},
      {3600, "h", {1, 2, 3, 4, 6, 8, 12, 12}}};

  for (const auto& unit : units) {
    for (const double count : unit.counts) {
      if (end_s <= kTicksMax * count * unit.unit_s) {
        return {count * unit.unit_s, unit.unit_s, unit.unit};
      }
    }
  }
  const double days = std::ceil(end_s / kTicksMax / 86400);
  return {days * 86400, 86400, "d"};
}

/// Thin lines through the panel; the lowest one has their times below.
void DrawTicks(const PlotTime& time, double top, bool is_lowest, std::string* svg) {
  if (!(time.seconds > 0) || !std::isfinite(time.seconds)) {
    return;
  }
  const TickStep step = StepOf(time.seconds);
  const double last_width = kLastLabelWidth + kLetterWidth * static_cast<double>(time.of.size());
  for (int i = 0; i * step.seconds < time.seconds; ++i) {
    const double x = kPlotLeft + (kPlotRight - kPlotLeft) * (i * step.seconds / time.seconds);
    *svg += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n",
        x,
        top,
        top + kPanelHeight);
    if (is_lowest && x < kPlotRight - last_width) {
      *svg += fmt::format(
          "<text class=\"soft\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}{}</text>\n",
          x,
          top + kPanelHeight + 20,
          i * step.seconds / step.unit_s,
          step.unit);
    }
  }
}

double LargestOf(const PlotPanel& panel) {
  double most = 0;
  for (const PlotLine& line : panel.lines) {
    for (const auto& [at, value] : line.points) {
      most = std::isfinite(value) ? std::max(most, value) : most;
    }
  }
  return most > 0 ? most : 1;
}

void DrawLegend(const PlotPanel& panel, double top, std::string* svg) {
  double x = kPlotRight - kLegendWidth * static_cast<double>(panel.legend.size());
  for (const auto& [style, name] : panel.legend) {
    *svg += fmt::format(
        "<line class=\"line {}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n"
        "<text class=\"soft\" x=\"{}\" y=\"{}\">{}</text>\n",
        style,
        x,
        top - 12,
        x + 20,
        top - 12,
        x + 26,
        top - 8,
        name);
    x += kLegendWidth;
  }
}

void DrawPanel(const PlotPanel& panel, double end, double top, std::string* svg) {
  const double most = LargestOf(panel);
  const double bottom = top + kPanelHeight;
  *svg += fmt::format(
      "<text class=\"ink\" x=\"{}\" y=\"{}\">{}</text>\n"
      "<line class=\"axis\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n"
      "<text class=\"soft\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n"
      "<text class=\"soft\" x=\"{}\" y=\"{}\" text-anchor=\"end\">0</text>\n",
      kPlotLeft,
      top - 8,
      panel.title,
      kPlotLeft,
      bottom,
      kPlotRight,
      bottom,
      kPlotLeft - 8,
      top + 10,
      most >= 100 ? FormatRate(most) : fmt::format("{:.3g}", most),
      kPlotLeft - 8,
      bottom);
  DrawLegend(panel, top, svg);
  for (const PlotLine& line : panel.lines) {
    std::string path;
    const size_t every = line.points.size() / kPlotPointsMax + 1;
    for (size_t i = 0; i < line.points.size(); i += every) {
      const auto& [at, value] = line.points[i];
      if (std::isfinite(value)) {
        path += fmt::format(
            "{}{:.1f},{:.1f}",
            path.empty() ? "" : " ",
            kPlotLeft + (kPlotRight - kPlotLeft) * std::clamp(at / end, 0.0, 1.0),
            bottom - kPanelHeight * std::clamp(value / most, 0.0, 1.0));
      }
    }
    *svg += fmt::format("<polyline class=\"line {}\" points=\"{}\"/>\n", line.style, path);
  }
}

}  // namespace

std::string DrawPlot(
    std::string_view title, const std::vector<PlotPanel>& panels, const PlotTime& time) {
  const double height = 96 + (kPanelHeight + 48) * static_cast<double>(panels.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 {0}\" width=\"760\">\n{1}"
      "<rect class=\"page\" width=\"760\" height=\"{0}\"/>\n"
      "<text class=\"ink title\" x=\"24\" y=\"34\">{2}</text>\n",
      height,
      kPlotStyle,
      title);
  double top = 80;
  for (const PlotPanel& panel : panels) {
    DrawTicks(time, top, &panel == &panels.back(), &svg);
    DrawPanel(panel, time.end > 0 ? time.end : 1, top, &svg);
    top += kPanelHeight + 48;
  }
  svg += fmt::format(
      "<text class=\"soft\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}{}</text>\n",
      kPlotRight,
      top - 28,
      FormatDuration(time.seconds),
      time.of);
  return svg + "</svg>\n";
}

}  // namespace ps::psctl
