#include "psctl/traces/replay_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "psctl/view/line_plot.h"
#include "run/report/run_events.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

/// Speed is measured over windows of this length.
constexpr double kWindowS = 1;
constexpr double kWindowSteps = 2;  // at least: samples are counted by steps

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

std::string NodeTime(double node_s, double all) {
  return fmt::format(
      "{} node-seconds{}",
      FormatFixed(node_s, 1),
      all > 0 ? " (" + FormatPercent(node_s / all) + ")" : "");
}

/// By how much more than is allowed; 0: it is kept, or there is no limit.
double MissedBy(double used, double limit) {
  return limit > 0 ? std::max(used - limit, 0.0) : 0;
}

bool IsMet(const ReplayReport& report) {
  return report.has_reached && MissedBy(report.trained_s, report.goal.within_s) == 0 &&
         MissedBy(report.usd_of_training, report.goal.budget_usd) == 0;
}

/// "met: loss 0.5000 after 35.5 s of at most 40.0 s, for 0.20 of at most 1.00 USD"
std::string ReplayedGoalText(const ReplayReport& report) {
  const ReplayGoal& goal = report.goal;
  std::string text =
      fmt::format("{}: loss {} ", IsMet(report) ? "met" : "not met", run::FormatLoss(goal.loss));
  if (report.has_reached) {
    text += "after ";
  } else {
    text += report.best_loss > 0
                ? fmt::format("missed by {} in ", run::FormatLoss(report.best_loss - goal.loss))
                : "with no step in ";
  }
  text += FormatDuration(report.trained_s);
  if (goal.within_s > 0) {
    const double missed_by = MissedBy(report.trained_s, goal.within_s);
    text += " of at most " + FormatDuration(goal.within_s) +
            (missed_by > 0 ? ", missed by " + FormatDuration(missed_by) : "");
  }
  if (goal.budget_usd > 0) {
    const double missed_by = MissedBy(report.usd_of_training, goal.budget_usd);
    text += fmt::format(
        ", for {} of at most {} USD{}",
        FormatUsd(report.usd_of_training),
        FormatUsd(goal.budget_usd),
        missed_by > 0 ? ", missed by " + FormatUsd(missed_by) : "");
  }
  return text;
}

void WriteGoal(const ReplayReport& report, JsonWriter* json) {
  const ReplayGoal& goal = report.goal;
  json->BeginObject("goal");
  json->Field("is_met", IsMet(report));
  json->Field("loss", goal.loss);
  if (report.best_loss > 0) {
    json->Field("loss_missed_by", MissedBy(report.best_loss, goal.loss));
  }
  json->Field("seconds", report.trained_s);
  json->Field("within_s", goal.within_s);
  json->Field("seconds_missed_by", MissedBy(report.trained_s, goal.within_s));
  json->Field("usd", report.usd_of_training);
  json->Field("budget_usd", goal.budget_usd);
  json->Field("usd_missed_by", MissedBy(report.usd_of_training, goal.budget_usd));
  json->EndObject();
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

std::string WishText(const provisioner::FleetWish& fleet) {
  return fleet.on_demand == 0 ? fmt::format("{} spot", fleet.spot)
                              : fmt::format("{} spot, {} on demand", fleet.spot, fleet.on_demand);
}

/// The one that is wanted then; null: none is yet.
const ReplayFleet* FleetAt(const std::vector<ReplayFleet>& fleets, double at_s) {
  const auto after = std::ranges::upper_bound(fleets, at_s, {}, &ReplayFleet::at_s);
  return after == fleets.begin() ? nullptr : &*(after - 1);
}

/// When replay and simulation want another fleet, in order, each once.
std::vector<double> ChangesOf(const ReplayReport& report) {
  std::vector<double> times;
  for (const auto* fleets : {&report.fleets, &report.simulation->fleets}) {
    for (const ReplayFleet& some : *fleets) {
      times.push_back(some.at_s);
    }
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  return times;
}

std::string SimulationText(const ReplayReport& report) {
  const ReplaySimulation& simulation = *report.simulation;
  const auto replayed = static_cast<double>(report.samples);
  const double more = simulation.samples > 0 ? replayed / simulation.samples - 1 : 0;
  return fmt::format(
      "{} samples, of which the replay made {} {}; {}",
      FormatCount(static_cast<uint64_t>(simulation.samples)),
      FormatPercent(std::abs(more)),
      more < 0 ? "less" : "more",
      simulation.fleets == report.fleets ? "the same fleets in the same intervals"
                                         : "fleets differ");
}

/// What replay and simulation wanted, side by side.
std::string RenderFleets(const ReplayReport& report) {
  if (!report.simulation) {
    return "";
  }
  std::string text = fmt::format("{:>9}  {:<20} {}\n", "trace", "replayed", "simulated");
  const auto name = [](const ReplayFleet* some) { return some ? WishText(some->fleet) : "-"; };
  for (const double at_s : ChangesOf(report)) {
    const ReplayFleet* const replayed = FleetAt(report.fleets, at_s);
    const ReplayFleet* const simulated = FleetAt(report.simulation->fleets, at_s);
    const bool is_same =
        replayed != nullptr && simulated != nullptr && replayed->fleet == simulated->fleet;
    text += fmt::format(
        "{:>9}  {:<20} {}{}\n",
        FormatDuration(at_s),
        name(replayed),
        name(simulated),
        is_same ? "" : "  differs");
  }
  return text;
}

void WriteFleets(std::string_view key, const std::vector<ReplayFleet>& fleets, JsonWriter* json) {
  json->BeginList(key);
  for (const ReplayFleet& some : fleets) {
    json->BeginObject();
    json->Field("at_s", some.at_s);
    json->Field("spot", some.fleet.spot);
    json->Field("on_demand", some.fleet.on_demand);
    json->EndObject();
  }
  json->EndList();
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

std::vector<ReplayFleet> FleetsByInterval(
    const std::vector<ReplayFleet>& fleets, double interval_s) {
  constexpr double kRounding = 1e-6;
  std::vector<ReplayFleet> kept;
  for (const ReplayFleet& some : fleets) {
    const double at_s = std::floor(some.at_s / interval_s + kRounding) * interval_s;
    if (!kept.empty() && kept.back().at_s == at_s) {
      kept.pop_back();
    }
    if (kept.empty() || kept.back().fleet != some.fleet) {
      kept.push_back({at_s, some.fleet});
    }
  }
  return kept;
}

ReplayGoal ReplayGoalOf(const proto::JobConfig& config) {
  const proto::GoalConfig& goal = config.goal;
  if (goal.loss == 0) {
    return {.loss = double{config.run.stop_at_loss}};
  }
  return {
      .loss = double{goal.loss},
      .within_s = double{goal.within_s},
      .budget_usd = double{goal.budget_usd}};
}

/// Once it is reached, what comes later counts for nothing.
void ReplayMeter::LookAtGoal(const proto::JobStatus& status) {
  if (report_.goal.loss == 0 || report_.has_reached) {
    return;
  }
  report_.trained_s = status.elapsed_s;
  report_.usd_of_training = status.usd_spent;
  if (status.steps_counted == 0) {
    return;
  }
  const bool is_first = report_.best_loss == 0;
  report_.best_loss = is_first ? status.train_loss : std::min(report_.best_loss, status.train_loss);
  report_.has_reached = report_.best_loss <= report_.goal.loss;
}

double ReplayMeter::SpeedUntil(double at_s, uint64_t samples) const {
  double window_s = kWindowS;
  for (const auto& [type, step_s] : report_.step_s) {
    window_s = std::max(window_s, kWindowSteps * step_s);
  }
  for (auto before = report_.points.rbegin(); before != report_.points.rend(); ++before) {
    if (at_s - before->at_s >= window_s) {
      return static_cast<double>(samples - std::min(samples, before->samples)) /
             (at_s - before->at_s);
    }
  }
  return kNotKnown;
}

void ReplayMeter::Look(double at_s, uint32_t available, const proto::JobStatus& status) {
  const auto present = static_cast<uint32_t>(run::CountWorkers(status));
  const double dt = report_.points.empty() ? 0 : at_s - report_.points.back().at_s;
  uint32_t wanted = 0;
  for (const proto::FleetRow& row : status.fleet) {
    wanted += row.wanted;
  }
  if (!is_begun_) {
    is_begun_ = true;
    begins_with_ = present;
    report_.samples_wanted = static_cast<double>(status.samples_total);
    samples_before_ = status.samples_counted;
    joins_before_ = status.joins;
    steps_lost_before_ = status.steps_lost;
    usd_before_ = status.usd_spent;
  }
  starting_node_s_ += (wanted - std::min(wanted, present)) * dt;
  report_.seconds = at_s;
  report_.node_s += available * dt;
  node_times_.Look(dt, available, status);
  report_.samples = status.samples_counted - std::min(status.samples_counted, samples_before_);
  report_.joins = status.joins - std::min(status.joins, joins_before_);
  report_.steps_lost = status.steps_lost - std::min(status.steps_lost, steps_lost_before_);
  report_.usd = status.usd_spent - usd_before_;
  if (status.steps_counted > 0) {
    report_.loss = status.train_loss;
  }
  LookAtGoal(status);
  const bool is_same = !report_.points.empty() && report_.points.back().available == available &&
                       report_.points.back().present == present;
  report_.points.push_back(
      {at_s,
       available,
       present,
       report_.samples,
       SpeedUntil(at_s, report_.samples),
       report_.loss.value_or(kNotKnown)});
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
  report.node_times = node_times_.Sum();
  std::vector<double> speeds = speeds_;
  if (!speeds.empty()) {
    const auto middle = speeds.begin() + static_cast<std::ptrdiff_t>(speeds.size() / 2);
    std::nth_element(speeds.begin(), middle, speeds.end());
    report.samples_ideal = *middle * report.node_s;
  }
  report.start_s = report.joins > 0 ? starting_node_s_ / static_cast<double>(report.joins) : 0;
  std::vector<ReplayFleet> fleets = {{0, {.spot = begins_with_}}};
  for (const ReplayDecision& decision : report.decisions) {
    fleets.push_back({decision.at_s * report.speedup, decision.fleet});
  }
  report.fleets = FleetsByInterval(fleets, report.interval_s);
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
    pairs.emplace_back(
        "simulated",
        report.simulation                   ? SimulationText(report)
        : report.simulation_trouble.empty() ? "-"
                                            : "not: " + Printable(report.simulation_trouble));
  }
  pairs.emplace_back(
      "of the ideal",
      report.samples_ideal > 0
          ? FormatPercent(static_cast<double>(report.samples) / report.samples_ideal) +
                " of a fleet that loses nothing at joins and leaves"
          : "not known: the fleet was never whole for long enough");
  pairs.emplace_back("available", NodeTime(report.node_s, 0));
  const run::NodeTimes& times = report.node_times;
  const bool has_step_s =
      std::ranges::any_of(report.step_s, [](const auto& some) { return some.second > 0; });
  pairs.emplace_back("computing", NodeTime(times.computing_s, report.node_s));
  pairs.emplace_back(
      "slower",
      has_step_s ? NodeTime(times.slower_s, report.node_s) +
                       " computing for longer than step_ms: other processes had the cores"
                 : "not known: the job has no step_ms");
  pairs.emplace_back("waiting", NodeTime(times.waiting_s, report.node_s));
  pairs.emplace_back("starting", NodeTime(times.starting_s, report.node_s));
  pairs.emplace_back("unused", NodeTime(times.unused_s, report.node_s));
  pairs.emplace_back(
      "revocations",
      FormatCount(report.revocations) + ", " + Plural(report.joins, "join") + ", " +
          Plural(report.steps_lost, "step") + " lost");
  if (report.start_s > 0) {
    pairs.emplace_back(
        "start-up",
        FormatDuration(report.start_s) + ", " + FormatDuration(report.start_s * report.speedup) +
            " of the trace, until a worker took part");
  }
  pairs.emplace_back(
      "cost", report.usd > 0 ? FormatUsd(report.usd) + " USD" : "- (no usd_per_hour in the job)");
  pairs.emplace_back("loss", report.loss ? run::FormatLoss(*report.loss) : "- (no step was made)");
  if (report.goal.loss > 0) {
    pairs.emplace_back("goal", ReplayedGoalText(report));
  }
  return run::RenderPairs(pairs) + RenderDecisions(report) + RenderFleets(report);
}

std::string JsonOfReplay(const ReplayReport& report) {
  JsonWriter json;
  json.BeginObject();
  json.Field("job", report.job);
  json.Field("trace", report.trace);
  json.Field("speedup", report.speedup);
  json.Field("seconds", report.seconds);
  json.Field("samples", report.samples);
  json.Field("samples_ideal", report.samples_ideal);
  json.Field("node_s", report.node_s);
  json.Field("computing_node_s", report.node_times.computing_s);
  json.Field("slower_node_s", report.node_times.slower_s);
  json.Field("waiting_node_s", report.node_times.waiting_s);
  json.Field("starting_node_s", report.node_times.starting_s);
  json.Field("unused_node_s", report.node_times.unused_s);
  json.Field("start_s", report.start_s);
  json.Field("revocations", report.revocations);
  json.Field("joins", report.joins);
  json.Field("steps_lost", report.steps_lost);
  json.Field("usd", report.usd);
  if (report.loss) {
    json.Field("loss", *report.loss);
  }
  if (report.goal.loss > 0) {
    WriteGoal(report, &json);
  }
  if (!report.policy.empty()) {
    json.Field("policy", report.policy);
    json.BeginList("decisions");
    for (const ReplayDecision& decision : report.decisions) {
      json.BeginObject();
      json.Field("at_s", decision.at_s * report.speedup);
      json.Field("spot", decision.fleet.spot);
      json.Field("on_demand", decision.fleet.on_demand);
      json.Field("has_change", decision.has_change);
      json.Field("why", decision.why);
      json.EndObject();
    }
    json.EndList();
    WriteFleets("fleets", report.fleets, &json);
  }
  if (report.simulation) {
    json.BeginObject("simulated");
    json.Field("samples", report.simulation->samples);
    WriteFleets("fleets", report.simulation->fleets, &json);
    json.EndObject();
  }
  json.EndObject();
  return std::move(json).Take();
}

std::string PlotReplay(const ReplayReport& report) {
  PlotLine available =
      LineOf(report, 'a', [](const auto& p) { return static_cast<double>(p.available); });
  available.is_background = true;
  const std::vector<PlotPanel> panels = {
      {"machines: available (grey), workers that take part (blue)",
       {available,
        LineOf(report, 'b', [](const auto& p) { return static_cast<double>(p.present); })}},
      {"samples/s", {LineOf(report, 'b', [](const auto& p) { return p.samples_per_s; })}},
      {"training loss", {LineOf(report, 'b', [](const auto& p) { return p.loss; })}},
  };
  return DrawPlot(
      Clip(
          fmt::format(
              "A replay of {} with {}, {:g} times as fast",
              StemOf(report.trace),
              StemOf(report.job),
              report.speedup),
          kTitleWidth),
      panels,
      {.end = report.points.empty() ? 0 : report.points.back().at_s,
       .seconds = report.seconds * report.speedup,
       .of = " of the trace"});
}

}  // namespace ps::psctl
