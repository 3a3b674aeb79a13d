#include "psctl/replay_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ps/base/text.h"
#include "psctl/line_plot.h"
#include "psctl/run_events.h"
#include "psctl/tables.h"

namespace ps::psctl {
namespace {

/// Speed is measured over windows of this length in which the fleet is whole.
constexpr double kWindowS = 1;

uint32_t StalledIn(const proto::JobStatus& status) {
  return static_cast<uint32_t>(std::ranges::count_if(status.workers, [](const auto& row) {
    return row.incarnation != Incarnation() && row.state == "waiting";
  }));
}

std::string NodeTime(double node_s, double all) {
  return fmt::format(
      "{} node-seconds{}",
      FormatFixed(node_s, 1),
      all > 0 ? " (" + FormatPercent(node_s / all) + ")" : "");
}

/// The last ones: what a policy came to rather than how it began.
std::string RenderDecisions(const ReplayReport& report) {
  constexpr size_t kShown = 20;
  const size_t shown = std::min(report.decisions.size(), kShown);
  const size_t left_out = report.decisions.size() - shown;
  std::string text =
      left_out > 0 ? fmt::format("... and {} before\n", Plural(left_out, "decision")) : "";
  for (size_t i = left_out; i < report.decisions.size(); ++i) {
    const ReplayDecision& decision = report.decisions[i];
    text += fmt::format(
        "{:>9}  {}\n", FormatDuration(decision.at_s * report.speedup), Printable(decision.why));
  }
  return text;
}

using ValueOf = std::function<double(const ReplayPoint&)>;

PlotLine LineOf(const ReplayReport& report, char style, const ValueOf& value) {
  PlotLine line = {.style = style, .points = {}};
  for (const ReplayPoint& point : report.points) {
    line.points.emplace_back(point.at_s, value(point));
  }
  return line;
}

}  // namespace

void ReplayMeter::Look(double at_s, uint32_t available, const proto::JobStatus& status) {
  const auto present = static_cast<uint32_t>(CountWorkers(status));
  const double dt = report_.points.empty() ? 0 : at_s - report_.points.back().at_s;
  if (!is_begun_) {
    is_begun_ = true;
    samples_before_ = status.samples_counted;
    joins_before_ = status.joins;
    steps_lost_before_ = status.steps_lost;
    usd_before_ = status.usd_spent;
  }
  const uint32_t working = std::min(present, available);
  report_.seconds = at_s;
  report_.node_s += available * dt;
  report_.idle_node_s += (available - working) * dt;
  report_.stalled_node_s += std::min(StalledIn(status), working) * dt;
  report_.samples = status.samples_counted - std::min(status.samples_counted, samples_before_);
  report_.joins = status.joins - std::min(status.joins, joins_before_);
  report_.steps_lost = status.steps_lost - std::min(status.steps_lost, steps_lost_before_);
  report_.usd = status.usd_spent - usd_before_;
  report_.loss = status.train_loss;
  const bool is_same = !report_.points.empty() && report_.points.back().available == available &&
                       report_.points.back().present == present;
  report_.points.push_back({at_s, available, present, status.samples_per_s, status.train_loss});
  if (present != available || available == 0 || !is_same) {
    full_since_s_ = -1;
    return;
  }
  if (full_since_s_ < 0) {
    full_since_s_ = at_s;
    samples_then_ = status.samples_counted;
  } else if (at_s - full_since_s_ >= kWindowS) {
    const uint64_t done = status.samples_counted - std::min(status.samples_counted, samples_then_);
    speeds_.push_back(static_cast<double>(done) / (at_s - full_since_s_) / available);
    full_since_s_ = at_s;
    samples_then_ = status.samples_counted;
  }
}

ReplayReport ReplayMeter::Finish() const {
  ReplayReport report = report_;
  std::vector<double> speeds = speeds_;
  if (!speeds.empty()) {
    const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
    std::nth_element(speeds.begin(), middle, speeds.end());
    report.samples_ideal = *middle * report.node_s;
  }
  return report;
}

std::string RenderReplay(const ReplayReport& report) {
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"job", Printable(report.job)},
      {"trace", Printable(report.trace)},
      {"time",
       FormatDuration(report.seconds) + " for " + FormatDuration(report.seconds * report.speedup) +
           " of the trace"},
      {"samples", FormatCount(report.samples)},
  };
  if (!report.policy.empty()) {
    const auto changes =
        std::ranges::count_if(report.decisions, [](const auto& some) { return some.has_change; });
    pairs.emplace_back(
        "policy",
        fmt::format(
            "{}, {}, {}",
            Printable(report.policy),
            Plural(report.decisions.size(), "decision"),
            Plural(static_cast<uint64_t>(changes), "change")));
  }
  pairs.emplace_back(
      "of the ideal",
      report.samples_ideal > 0
          ? FormatPercent(static_cast<double>(report.samples) / report.samples_ideal) +
                " of a fleet that loses nothing at joins and leaves"
          : "not known: the fleet was never whole for long enough");
  pairs.emplace_back("available", NodeTime(report.node_s, 0));
  pairs.emplace_back("idle", NodeTime(report.idle_node_s, report.node_s));
  pairs.emplace_back("stalled", NodeTime(report.stalled_node_s, report.node_s));
  pairs.emplace_back(
      "revocations",
      FormatCount(report.revocations) + ", " + Plural(report.joins, "join") + ", " +
          Plural(report.steps_lost, "step") + " lost");
  pairs.emplace_back(
      "cost", report.usd > 0 ? FormatUsd(report.usd) + " USD" : "- (no usd_per_hour in the job)");
  pairs.emplace_back("loss", FormatLoss(report.loss));
  if (report.loss_wanted > 0) {
    pairs.emplace_back(
        "goal",
        "loss " + FormatLoss(report.loss_wanted) +
            (report.loss <= report.loss_wanted ? ": met" : ": not met"));
  }
  return RenderPairs(pairs) + RenderDecisions(report);
}

std::string PlotReplay(const ReplayReport& report) {
  const std::vector<PlotPanel> panels = {
      {"machines: available (grey), workers that take part (blue)",
       {LineOf(report, 'a', [](const auto& p) { return static_cast<double>(p.available); }),
        LineOf(report, 'b', [](const auto& p) { return static_cast<double>(p.present); })}},
      {"samples/s", {LineOf(report, 'b', [](const auto& p) { return p.samples_per_s; })}},
      {"training loss", {LineOf(report, 'b', [](const auto& p) { return p.loss; })}},
  };
  return DrawPlot(
      fmt::format("A replay at {:g} times the speed", report.speedup),
      panels,
      {.end = report.points.empty() ? 0 : report.points.back().at_s,
       .seconds = report.seconds * report.speedup,
       .of = " of the trace"});
}

}  // namespace ps::psctl
