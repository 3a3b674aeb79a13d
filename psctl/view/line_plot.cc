#include "psctl/view/line_plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>

#include "ps/base/text.h"

namespace ps::psctl {
namespace {

constexpr double kPlotLeft = 84;
constexpr double kPlotRight = 736;
constexpr double kPanelHeight = 120;
constexpr double kSwatchWidth = 20;

constexpr std::string_view kPlotStyle = R"(<style>
  .page { fill: #ffffff } .ink { fill: #1b1f24 } .soft { fill: #57606a } .axis { stroke: #d0d7de }
  .line { fill: none; stroke-width: 1.5 } .wide { stroke-width: 4; opacity: 0.45 }
  .a { stroke: #57606a } .b { stroke: #0550ae }
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

/// Between two labels of a panel: 1, 2 or 5 times a power of ten, so that there are four or a few
/// less.
double ValueStepOf(double most) {
  constexpr double kStepsMax = 4;
  const double raw = most / kStepsMax;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power * (1 + 1e-9)) {
      return factor * power;
    }
  }
  return 10 * power;
}

/// "0.05", "30", "2,500", "20M": exact, since steps are round. `most` is the panel's largest.
std::string ValueText(double value, double step, double most) {
  constexpr double kShortFrom = 1e7;
  if (value == 0) {
    return "0";
  }
  if (most >= kShortFrom) {
    return fmt::format("{:g}M", value / 1e6);
  }
  if (step >= 1) {
    return FormatCount(static_cast<uint64_t>(std::llround(value)));
  }
  const int decimals = static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
  return decimals > 6 ? fmt::format("{:g}", value) : FormatFixed(value, decimals);
}

/// Points of the picture.
using Path = std::vector<std::pair<double, double>>;

/// Where a panel's values lie in the picture.
struct PanelFrame {
  double end = 1;  // of the time
  double top = 0;
  double most = 1;

  double X(double at) const {
    return kPlotLeft + (kPlotRight - kPlotLeft) * std::clamp(at / end, 0.0, 1.0);
  }

  double Y(double value) const {
    return top + kPanelHeight - kPanelHeight * std::clamp(value / most, 0.0, 1.0);
  }
};

/// The line as it is drawn: of the points in half a pixel's width the first, the last and the
/// extremes, which look like all of them.
Path PathOf(const PlotLine& line, const PanelFrame& frame) {
  constexpr double kColumn = 0.5;
  Path path;
  Path column;
  const auto flush = [&] {
    if (column.empty()) {
      return;
    }
    const auto y = [](const auto& point) { return point.second; };
    auto low = std::ranges::min_element(column, {}, y);
    auto high = std::ranges::max_element(column, {}, y);
    if (high < low) {
      std::swap(low, high);
    }
    for (const auto& point : {column.front(), *low, *high, column.back()}) {
      if (path.empty() || path.back() != point) {
        path.push_back(point);
      }
    }
    column.clear();
  };
  for (const auto& [at, value] : line.points) {
    if (!std::isfinite(value)) {
      continue;
    }
    const std::pair<double, double> point = {frame.X(at), frame.Y(value)};
    if (!column.empty() && point.first >= column.front().first + kColumn) {
      flush();
    }
    column.push_back(point);
  }
  flush();
  return path;
}

/// The height at `x`; nothing where the line is not.
std::optional<double> HeightAt(const Path& path, double x) {
  const auto after = std::ranges::upper_bound(path, x, {}, &std::pair<double, double>::first);
  if (after == path.begin() || (after == path.end() && path.back().first < x)) {
    return std::nullopt;
  }
  const auto& [x0, y0] = *(after - 1);
  if (after == path.end()) {
    return y0;
  }
  return y0 + (after->second - y0) * (x - x0) / (after->first - x0);
}

/// Whether the one that is drawn first is hidden by the other one for a fifth of the width.
bool LieOnEachOther(const Path& a, const Path& b) {
  constexpr int kLooks = 200;
  constexpr int kTiedMin = kLooks / 5;
  constexpr double kNear = 1;  // pixels
  int tied = 0;
  for (int i = 0; i < kLooks; ++i) {
    const double x = kPlotLeft + (kPlotRight - kPlotLeft) * (i + 0.5) / kLooks;
    const std::optional<double> of_a = HeightAt(a, x);
    const std::optional<double> of_b = HeightAt(b, x);
    tied += of_a && of_b && std::abs(*of_a - *of_b) < kNear ? 1 : 0;
  }
  return tied >= kTiedMin;
}

/// For each path the group of those that lie on each other, as the index of one of them.
std::vector<size_t> GroupsOf(const std::vector<Path>& paths) {
  std::vector<size_t> groups(paths.size());
  std::iota(groups.begin(), groups.end(), size_t{0});
  for (size_t i = 0; i < paths.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (groups[i] != groups[k] && LieOnEachOther(paths[i], paths[k])) {
        std::ranges::replace(groups, size_t{groups[i]}, size_t{groups[k]});
      }
    }
  }
  return groups;
}

/// Each line of a group has longer gaps than the one that is drawn before it, which is seen there.
std::string DashOf(const std::vector<size_t>& groups, size_t which) {
  constexpr size_t kDash = 6;  // pixels
  const auto of_all = static_cast<size_t>(std::ranges::count(groups, groups[which]));
  const auto below = static_cast<size_t>(std::count(
      groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(which), groups[which]));
  return below == 0
             ? ""
             : fmt::format(" stroke-dasharray=\"{} {}\"", kDash * (of_all - below), kDash * below);
}

/// At the right end above the panel.
void DrawLegend(const PlotPanel& panel, double top, std::string* svg) {
  constexpr double kBeforeName = kSwatchWidth + 6;
  constexpr double kAfterName = 14;
  double x = kPlotRight;
  for (auto entry = panel.legend.rbegin(); entry != panel.legend.rend(); ++entry) {
    const auto& [style, name] = *entry;
    x -= kBeforeName + kLetterWidth * static_cast<double>(name.size()) + kAfterName;
    *svg += fmt::format(
        "<line class=\"line {}\" x1=\"{:.1f}\" y1=\"{}\" x2=\"{:.1f}\" y2=\"{}\"/>\n"
        "<text class=\"soft\" x=\"{:.1f}\" y=\"{}\">{}</text>\n",
        style,
        x,
        top - 12,
        x + kSwatchWidth,
        top - 12,
        x + kBeforeName,
        top - 8,
        XmlText(name));
  }
}

void DrawPath(const PlotLine& line, const Path& path, const std::string& dash, std::string* svg) {
  std::string points;
  for (const auto& [x, y] : path) {
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x, y);
  }
  *svg += fmt::format(
      "<polyline class=\"line {}{}\"{} points=\"{}\"/>\n",
      line.style,
      line.is_background ? " wide" : "",
      dash,
      points);
}

void DrawPanel(const PlotPanel& panel, double end, double top, std::string* svg) {
  const double largest = LargestOf(panel);
  const double step = ValueStepOf(largest);
  const double steps = std::ceil(largest / step * (1 - 1e-9));
  const PanelFrame frame = {end, top, steps * step};
  *svg += fmt::format(
      "<text class=\"ink\" x=\"{}\" y=\"{}\">{}</text>\n",
      kPlotLeft,
      top - 8,
      XmlText(panel.title));
  for (int i = 0; i <= static_cast<int>(steps); ++i) {
    const double value = i * step;
    *svg += fmt::format(
        "<line class=\"axis\" x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\"/>\n"
        "<text class=\"soft\" x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kPlotLeft,
        kPlotRight,
        frame.Y(value),
        kPlotLeft - 8,
        frame.Y(value) + 4,
        ValueText(value, step, frame.most));
  }
  DrawLegend(panel, top, svg);
  std::vector<Path> paths;
  for (const PlotLine& line : panel.lines) {
    if (line.is_background) {
      DrawPath(line, PathOf(line, frame), "", svg);
    } else {
      paths.push_back(PathOf(line, frame));
    }
  }
  const std::vector<size_t> groups = GroupsOf(paths);
  size_t which = 0;
  for (const PlotLine& line : panel.lines) {
    if (!line.is_background) {
      DrawPath(line, paths[which], DashOf(groups, which), svg);
      ++which;
    }
  }
}

}  // namespace

std::string_view PlotStyle() {
  return kPlotStyle;
}

std::string StemOf(const std::string& path) {
  return Printable(std::filesystem::path(path).stem().string());
}

std::string DrawPlot(
    std::string_view title, const std::vector<PlotPanel>& panels, const PlotTime& time) {
  const double height = 96 + (kPanelHeight + 48) * static_cast<double>(panels.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 {0}\" width=\"760\">\n{1}"
      "<rect class=\"page\" width=\"760\" height=\"{0}\"/>\n"
      "<text class=\"ink title\" x=\"24\" y=\"34\">{2}</text>\n",
      height,
      kPlotStyle,
      XmlText(title));
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
