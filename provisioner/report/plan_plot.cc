// Two panels above each other over one axis of workers: speed, and what reaching the loss costs.
// Bands behind them say what limits fleets of that size, names below them which fleet that is.

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <string_view>

#include "provisioner/report/plan_report.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr double kWidth = 760;
constexpr double kLeft = 84;
constexpr double kRight = 736;
constexpr double kSpeedTop = 92;
constexpr double kSpeedBottom = 272;
constexpr double kCostTop = 306;
constexpr double kCostBottom = 470;
constexpr double kNamesTop = 500;
constexpr double kLegendHeight = 56;
constexpr double kLetterWidth = 6.4;
constexpr size_t kNameMax = 60;  // letters
constexpr int kTicks = 4;

constexpr std::string_view kStyle = R"(<style>
  .page { fill: #ffffff } .ink { fill: #1b1f24 } .soft { fill: #57606a }
  .grid { stroke: #d0d7de } .axis { stroke: #57606a }
  .speed { stroke: #0550ae; fill: #0550ae } .cost { stroke: #953800; fill: #953800 }
  .late { fill: #ffffff } .mark { stroke: #1b1f24 } .line { fill: none }
  .compute { fill: #ddf4e4 } .pcie { fill: #eadcf8 } .worker { fill: #fff3c4 }
  .server { fill: #ffdcd7 }
  text { font: 13px system-ui, sans-serif } .title { font-size: 17px; font-weight: 600 }
  .small { font-size: 12px }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .ink { fill: #e6edf3 } .soft { fill: #9da7b3 }
    .grid { stroke: #30363d } .axis { stroke: #9da7b3 }
    .speed { stroke: #79c0ff; fill: #79c0ff } .cost { stroke: #ffa657; fill: #ffa657 }
    .late { fill: #0d1117 } .mark { stroke: #e6edf3 } .line { fill: none }
    .compute { fill: #14301f } .pcie { fill: #2c1f45 } .worker { fill: #3a2f0b }
    .server { fill: #46191a }
  }
</style>
)";

[[gnu::format(printf, 1, 2)]] std::string Text(const char* format, ...) {
  char text[640];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

const char* BandClass(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kCompute:
      return "compute";
    case Bottleneck::kPcie:
      return "pcie";
    case Bottleneck::kWorkerLink:
      return "worker";
    case Bottleneck::kServerLink:
      return "server";
  }
  return "compute";
}

/// 1, 2 or 5 times a power of ten, so that about kTicks steps reach `most`.
double TickStep(double most) {
  const double raw = most / kTicks;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) {
      return factor * power;
    }
  }
  return 10 * power;
}

std::string NumberText(double value, double step) {
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step))), 0, 9);
  std::string digits = Text("%.*f", decimals, value);
  const size_t point = std::min(digits.find('.'), digits.size());
  for (size_t at = point; at > 3; at -= 3) {
    digits.insert(at - 3, ",");
  }
  return digits;
}

struct Axis {
  double top = 0;
  double bottom = 0;
  double most = 1;

  double Y(double value) const { return bottom - value / most * (bottom - top); }
};

class Plot {
 public:
  Plot(const std::vector<PlotPoint>& points, int chosen_workers)
      : points_(points), chosen_workers_(chosen_workers) {
    for (const PlotPoint& point : points) {
      workers_max_ = std::max(workers_max_, point.workers);
      const size_t letters = std::min(point.fleet.size(), kNameMax);
      height_ = std::max(
          height_, kNamesTop + kLetterWidth * static_cast<double>(letters) + kLegendHeight);
    }
  }

  double X(double workers) const {
    return kLeft + (workers - 0.5) / workers_max_ * (kRight - kLeft);
  }

  void Bands() {
    for (const Axis& axis : {Axis{kSpeedTop, kSpeedBottom, 1}, Axis{kCostTop, kCostBottom, 1}}) {
      for (const PlotPoint& point : points_) {
        svg_ += Text(
            "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
            BandClass(point.choice.speed.bottleneck),
            X(point.workers - 0.5),
            axis.top,
            (kRight - kLeft) / workers_max_ + 0.3,
            axis.bottom - axis.top);
      }
    }
  }

  /// One panel. `value` may be infinite, which breaks the line.
  void Panel(
      double top,
      double bottom,
      const char* style,
      const char* label,
      double (*value)(const PlotPoint&)) {
    Axis axis{top, bottom, 0};
    for (const PlotPoint& point : points_) {
      axis.most = std::isfinite(value(point)) ? std::max(axis.most, value(point)) : axis.most;
    }
    const double step = TickStep(axis.most > 0 ? axis.most : 1);
    axis.most = std::max(std::ceil(axis.most / step), 1.0) * step;
    for (double tick = 0; tick <= axis.most * (1 + 1e-9); tick += step) {
      svg_ += Text(
          "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n"
          "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
          kLeft,
          kRight,
          axis.Y(tick),
          axis.Y(tick),
          kLeft - 8,
          axis.Y(tick) + 4,
          NumberText(tick, step).c_str());
    }
    svg_ += Text(
        "<text class=\"ink\" transform=\"translate(22 %.1f) rotate(-90)\" "
        "text-anchor=\"middle\">%s</text>\n",
        (top + bottom) / 2,
        label);
    std::string path;
    for (const PlotPoint& point : points_) {
      if (std::isfinite(value(point))) {
        path +=
            Text("%s%.1f %.1f ", path.empty() ? "M" : "L", X(point.workers), axis.Y(value(point)));
      }
    }
    svg_ += Text("<path class=\"%s line\" stroke-width=\"2\" d=\"", style) + path + "\"/>\n";
    for (const PlotPoint& point : points_) {
      if (std::isfinite(value(point))) {
        Dot(point, axis.Y(value(point)), style);
      }
    }
  }

  void WorkerAxis() {
    const int step = std::max(1, (workers_max_ + 15) / 16);
    for (int workers = 1; workers <= workers_max_; workers += step) {
      svg_ += Text(
          "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n",
          X(workers),
          kCostBottom + 18,
          workers);
    }
    svg_ += Text(
        "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n"
        "<text class=\"ink\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">workers</text>\n",
        kLeft,
        kRight,
        kCostBottom,
        kCostBottom,
        kLeft - 8,
        kCostBottom + 18);
  }

  /// Which fleet each point is of, upwards to its number of workers.
  void Names() {
    for (const PlotPoint& point : points_) {
      const bool is_long = point.fleet.size() > kNameMax;
      svg_ += Text(
          "<text class=\"small %s\" transform=\"translate(%.1f %.1f) rotate(-90)\" "
          "text-anchor=\"end\">",
          point.workers == chosen_workers_ ? "ink" : "soft",
          X(point.workers) + 4,
          kNamesTop);
      svg_ += XmlText(is_long ? point.fleet.substr(0, kNameMax - 3) + "..." : point.fleet);
      svg_ += "</text>\n";
    }
  }

  void Legend() {
    double x = kLeft;
    const double y = height_ - 20;
    svg_ += Text("<text class=\"small ink\" x=\"%.1f\" y=\"%.1f\">limited by</text>\n", x, y);
    x += 68;
    for (const Bottleneck bottleneck :
         {Bottleneck::kCompute,
          Bottleneck::kPcie,
          Bottleneck::kWorkerLink,
          Bottleneck::kServerLink}) {
      const std::string name(BottleneckName(bottleneck));
      svg_ += Text(
          "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"14\"/>\n"
          "<text class=\"small ink\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
          BandClass(bottleneck),
          x,
          y - 11,
          x + 19,
          y,
          name.c_str());
      x += 40 + 6.6 * static_cast<double>(name.size());
    }
    svg_ += Text(
        "<circle class=\"speed late\" stroke-width=\"2\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n"
        "<text class=\"small ink\" x=\"%.1f\" y=\"%.1f\">misses the goal</text>\n",
        x + 6,
        y - 4,
        x + 16,
        y);
  }

  void Chosen() {
    for (const PlotPoint& point : points_) {
      if (point.workers != chosen_workers_) {
        continue;
      }
      svg_ += Text(
          "<line class=\"mark\" stroke-width=\"1.5\" stroke-dasharray=\"4 4\" x1=\"%.1f\" "
          "x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
          X(point.workers),
          X(point.workers),
          kSpeedTop,
          kCostBottom);
      const bool is_left = point.workers * 2 > workers_max_;
      svg_ += Text(
                  "<text class=\"ink\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">chosen: ",
                  X(point.workers) + (is_left ? -8 : 8),
                  (kSpeedBottom + kCostTop) / 2 + 5,
                  is_left ? "end" : "start") +
              XmlText(point.fleet) + "</text>\n";
    }
  }

  std::string Take(const PlotTexts& texts) && {
    std::string out = Text(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
        "height=\"%.0f\" role=\"img\" aria-label=\"",
        kWidth,
        height_,
        kWidth,
        height_);
    out += XmlText(texts.title) + "\">\n";
    out += kStyle;
    out += Text("<rect class=\"page\" width=\"%.0f\" height=\"%.0f\"/>\n", kWidth, height_);
    out += "<text class=\"title ink\" x=\"20\" y=\"32\">" + XmlText(texts.title) + "</text>\n";
    out += "<text class=\"soft\" x=\"20\" y=\"54\">" + XmlText(texts.subtitle) + "</text>\n";
    return out + svg_ + "</svg>\n";
  }

 private:
  void Dot(const PlotPoint& point, double y, const char* style) {
    const bool is_chosen = point.workers == chosen_workers_;
    svg_ += Text(
        "<circle class=\"%s%s\" stroke-width=\"2\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>",
        style,
        point.is_in_time ? "" : " late",
        X(point.workers),
        y,
        is_chosen ? 7 : 4);
    svg_ += XmlText(point.fleet) + ": " + FormatRate(point.choice.speed.samples_per_s) +
            Text(
                " samples/s, %.0f s, %.2f USD</title></circle>\n",
                point.choice.seconds,
                point.choice.usd);
  }

  const std::vector<PlotPoint>& points_;
  int chosen_workers_;
  int workers_max_ = 1;
  double height_ = kNamesTop + kLegendHeight;
  std::string svg_;
};

}  // namespace

std::string PlotSvg(
    const std::vector<PlotPoint>& points, int chosen_workers, const PlotTexts& texts) {
  Plot plot(points, chosen_workers);
  plot.Bands();
  plot.Panel(kSpeedTop, kSpeedBottom, "speed", "samples/s", [](const PlotPoint& point) {
    return point.choice.speed.samples_per_s;
  });
  plot.Panel(kCostTop, kCostBottom, "cost", "USD to the loss", [](const PlotPoint& point) {
    return point.choice.usd;
  });
  plot.WorkerAxis();
  plot.Names();
  plot.Chosen();
  plot.Legend();
  return std::move(plot).Take(texts);
}

}  // namespace ps::provisioner
