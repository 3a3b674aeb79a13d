#include "psctl/view/plan_view.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "provisioner/report/plan_report.h"
#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "psctl/view/capacity_view.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

constexpr size_t kFleetWidthMax = 100;

std::string PercentText(double fraction) {
  return FormatFixed(fraction * 100, 0) + " %";
}

std::string Spread(
    const proto::Estimate& estimate, const std::function<std::string(double)>& format) {
  return format(estimate.value) + "  (" + format(estimate.low) + " to " + format(estimate.high) +
         ")";
}

std::string WholeText(double value) {
  return FormatCount(static_cast<uint64_t>(std::llround(std::max(value, 0.0))));
}

/// Samples/s, of which a slow job has less than one.
std::string RateText(double per_s) {
  return FormatRate(std::max(per_s, 0.0));
}

std::string_view CertaintyText(proto::Certainty certainty) {
  switch (certainty) {
    case proto::Certainty::kBestFound:
      return "best of the fleets that were looked at";
    case proto::Certainty::kBoundsChecked:
      return "best of all fleets, by bounds checked by experiment";
    case proto::Certainty::kProven:
      return "best of all fleets, proved";
  }
  return "";
}

/// "+12 %", "-0.5 %"
std::string ChangeText(double share) {
  const double percent = share * 100;
  const int decimals = std::abs(percent) < 9.95 ? 1 : 0;
  const std::string digits = FormatFixed(std::abs(percent), decimals);
  const bool is_zero = digits.find_first_not_of("0.") == std::string::npos;
  return is_zero ? "0 %" : (percent < 0 ? "-" : "+") + digits + " %";
}

std::string RenderGains(const proto::Plan& plan, size_t width_max) {
  run::Table table({{"with", run::Align::kLeft}, {"speed"}, {"time"}, {"USD"}, {"USD more"}});
  for (const proto::PlanGain& gain : plan.gains) {
    table.AddRow(
        {gain.change,
         ChangeText(gain.samples_per_s / plan.samples_per_s.value - 1),
         FormatDuration(gain.seconds),
         FormatUsd(gain.usd),
         ChangeText(gain.usd / plan.usd.value - 1)});
  }
  return table.Render(width_max);
}

double UsdPerHour(const proto::PlanAlternative& some) {
  double usd = some.servers.count * some.servers.usd_per_hour;
  for (const proto::PlanWorkers& workers : some.workers) {
    usd += workers.count * workers.usd_per_hour;
  }
  return usd;
}

proto::PlanAlternative Itself(const proto::Plan& plan) {
  return {
      "chosen",
      plan.workers,
      plan.servers,
      plan.samples_per_s,
      plan.seconds,
      plan.usd,
      plan.local_steps};
}

/// Fleets under `title`: with time and cost to the loss, or with the price of an hour without one.
std::string RenderFleets(
    const proto::Plan& plan,
    const std::string& title,
    const std::vector<proto::PlanAlternative>& fleets,
    const PlanViewOptions& options) {
  const bool has_loss = plan.seconds.value > 0;
  std::vector<run::Column> columns = {
      {title, run::Align::kLeft},
      {"workers", run::Align::kLeft},
      {"servers", run::Align::kLeft},
      {"samples/s", run::Align::kRight, 2}};
  if (has_loss) {
    columns.insert(columns.end(), {{"time"}, {"USD"}, {"USD more", run::Align::kRight, 1}});
  } else {
    columns.insert(columns.end(), {{"USD/h"}, {"USD per M samples"}});
  }
  run::Table table(std::move(columns), kFleetWidthMax);
  for (const proto::PlanAlternative& some : fleets) {
    std::vector<std::string> cells = {
        some.kind,
        provisioner::FleetText(some.workers, options.names_minibatches, options.zoned),
        provisioner::ServersText(some.servers),
        RateText(some.samples_per_s.value)};
    if (has_loss) {
      cells.push_back(FormatDuration(some.seconds.value));
      cells.push_back(FormatUsd(some.usd.value));
      cells.push_back(ChangeText(some.usd.value / plan.usd.value - 1));
    } else {
      const double usd_per_hour = UsdPerHour(some);
      cells.push_back(FormatUsd(usd_per_hour));
      cells.push_back(FormatUsd(usd_per_hour / 3600 / some.samples_per_s.value * 1e6));
    }
    table.AddRow(std::move(cells));
  }
  return table.Render(options.width_max);
}

std::string RenderAlternatives(const proto::Plan& plan, const PlanViewOptions& options) {
  std::vector<proto::PlanAlternative> fleets = {Itself(plan)};
  fleets.insert(fleets.end(), plan.alternatives.begin(), plan.alternatives.end());
  return RenderFleets(plan, "plan", fleets, options);
}

std::string RenderRevocations(const proto::Plan& plan, const PlanViewOptions& options) {
  const proto::PlanRevocations& outlook = plan.revocations;
  run::Table table(
      {{"with revocations, in the mean", run::Align::kLeft},
       {"revoked"},
       {"time"},
       {"USD"},
       {"USD more"}});
  const auto add = [&](const std::string& name, double revoked, double seconds, double usd) {
    table.AddRow(
        {name,
         FormatFixed(revoked, 1),
         FormatDuration(seconds),
         FormatUsd(usd),
         ChangeText(usd / plan.usd.value - 1)});
  };
  add("new machines after " + FormatDuration(outlook.start_up_s),
      outlook.revoked,
      outlook.seconds,
      outlook.usd);
  if (outlook.seconds_unreplaced > 0) {
    add("no new machines",
        outlook.revoked_unreplaced,
        outlook.seconds_unreplaced,
        outlook.usd_unreplaced);
  }
  return table.Render(options.width_max);
}

/// Where there is no loss to reach.
std::string RenderHoursAhead(const proto::Plan& plan, const PlanViewOptions& options) {
  const proto::PlanRevocations& outlook = plan.revocations;
  run::Table table(
      {{"with revocations, in the mean of a day", run::Align::kLeft},
       {"revoked"},
       {"samples/s"},
       {"less"},
       {"USD/h"},
       {"USD per M samples"}});
  table.AddRow(
      {"new machines after " + FormatDuration(outlook.start_up_s),
       FormatFixed(outlook.revoked_a_day, 1),
       RateText(outlook.samples_per_s),
       FormatFixed(100 * (1 - outlook.samples_per_s / plan.samples_per_s.value), 2) + " %",
       FormatUsd(outlook.usd_per_hour),
       FormatUsd(outlook.usd_per_hour / 3600 / outlook.samples_per_s * 1e6)});
  return table.Render(options.width_max);
}

/// What the plan is compared with, and what would change it.
std::string RenderTables(const proto::Plan& plan, const PlanViewOptions& options) {
  std::string text;
  if (!plan.alternatives.empty()) {
    text += "\n" + RenderAlternatives(plan, options);
  }
  if (plan.revocations.seconds > 0) {
    text += "\n" + RenderRevocations(plan, options);
  }
  const bool is_by_speed = plan.objective == proto::Objective::kThroughputPerHour;
  if (is_by_speed && plan.revocations.samples_per_s > 0) {
    text += "\n" + RenderHoursAhead(plan, options);
  }
  if (!plan.capacity.empty()) {
    text += "\n" + RenderCapacity(plan, options);
  }
  if (!plan.if_prices_double.empty()) {
    text += "\n" + RenderFleets(plan, "at twice the spot price", plan.if_prices_double, options);
  }
  if (!plan.gains.empty()) {
    text += "\nwhat more would buy\n" + RenderGains(plan, options.width_max);
  }
  return text;
}

std::string_view ObjectiveText(proto::Objective objective) {
  switch (objective) {
    case proto::Objective::kCost:
      return "least cost";
    case proto::Objective::kTime:
      return "least time";
    case proto::Objective::kThroughputPerHour:
      return "most samples/s";
  }
  return "";
}

/// "2 p3.2xlarge, 1 g3.8xlarge": the held workers of a plan, or those that are not; "none".
std::string PartText(const proto::Plan& plan, bool is_held, const PlanViewOptions& options) {
  std::vector<proto::PlanWorkers> part;
  for (const proto::PlanWorkers& workers : plan.workers) {
    part.push_back(workers);
    part.back().market = proto::Market::kSpot;  // said with the whole
    part.back().count = is_held ? workers.held : workers.count - workers.held;
  }
  std::erase_if(part, [](const proto::PlanWorkers& workers) { return workers.count <= 0; });
  return part.empty() ? "none"
                      : provisioner::FleetText(part, options.names_minibatches, options.zoned);
}

/// "as int8 to the servers, as bf16 back"; empty where the job's own are kept.
std::string EncodingsText(const proto::Plan& plan) {
  const std::string push = plan.push.empty() ? "" : "as " + plan.push + " to the servers";
  const std::string pull = plan.pull.empty() ? "" : "as " + plan.pull + " back";
  return push + (push.empty() || pull.empty() ? "" : ", ") + pull;
}

}  // namespace

std::string GoalText(const proto::Plan& plan) {
  std::string text = "loss " + FormatRate(plan.loss_target);
  if (plan.loss_now > 0) {
    text += " from " + FormatRate(plan.loss_now);
  }
  if (plan.seconds_max > 0) {
    text += " within " + FormatDuration(plan.seconds_max);
  }
  if (plan.usd_max > 0) {
    text += (plan.seconds_max > 0 ? " and " : " for at most ") + FormatUsd(plan.usd_max) + " USD";
  }
  return text + " at " + PercentText(plan.confidence) + " confidence";
}

std::string GbText(double bytes) {
  constexpr double kBytesPerGb = 1e9;
  const double gb = bytes / kBytesPerGb;
  return gb < 10 ? FormatFixed(gb, 2) : FormatRate(gb);
}

/// "812 GB, 203 of it from zone to zone for 4.06 USD"
std::string TrafficText(const proto::PlanTraffic& traffic) {
  const std::string all = GbText(traffic.bytes) + " GB, ";
  return traffic.bytes_across_zones > 0
             ? all + GbText(traffic.bytes_across_zones) + " of it from zone to zone for " +
                   FormatUsd(traffic.usd) + " USD"
             : all + "none from zone to zone: 0 USD";
}

std::string RenderPlan(const proto::Plan& plan, const PlanViewOptions& options) {
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"job", plan.job},
      {"workers", provisioner::FleetText(plan.workers, options.names_minibatches, options.zoned)},
      {"zones", provisioner::ZonesText(plan.workers)},
      {"servers", provisioner::ServersText(plan.servers)},
      {"samples/s", Spread(plan.samples_per_s, RateText)}};
  if (options.has_held) {
    const std::string fresh = PartText(plan, /*is_held=*/false, options);
    const bool takes_over = plan.takeover_s > 0 && (fresh != "none" || !options.dropped.empty());
    const std::pair<std::string, std::string> parts[] = {
        {"kept", PartText(plan, /*is_held=*/true, options)},
        {"new",
         fresh + (takes_over ? "; taking over costs " + FormatDuration(plan.takeover_s) : "")},
        {"dropped", options.dropped}};
    pairs.insert(pairs.begin() + 2, std::begin(parts), std::end(parts));
  }
  std::erase_if(pairs, [](const auto& pair) { return pair.second.empty(); });
  if (plan.local_steps > 1) {
    pairs.insert(pairs.end() - 1, {"local steps", std::to_string(plan.local_steps)});
  }
  if (const std::string encodings = EncodingsText(plan); !encodings.empty()) {
    pairs.insert(pairs.end() - 1, {"values travel", encodings});
  }
  if (plan.usd_per_hour_max > 0) {
    pairs.insert(
        pairs.begin() + 1,
        {"limit", "an hour for at most " + FormatUsd(plan.usd_per_hour_max) + " USD"});
    pairs.emplace_back("an hour, USD", FormatUsd(UsdPerHour(Itself(plan))));
  }
  if (plan.seconds.value > 0) {
    pairs.insert(pairs.begin() + 1, {"goal", GoalText(plan)});
    pairs.emplace_back("steps", Spread(plan.steps, WholeText));
    pairs.emplace_back("time", Spread(plan.seconds, FormatDuration));
    if (plan.takeover_s > 0 && !options.has_held) {
      pairs.emplace_back("start", FormatDuration(plan.takeover_s) + " of it, until all are up");
    }
    pairs.emplace_back("loss", "reaches " + FormatRate(plan.loss_target));
    pairs.emplace_back("cost, USD", Spread(plan.usd, FormatUsd));
    if (plan.traffic.bytes > 0) {
      pairs.emplace_back("traffic", TrafficText(plan.traffic));
    }
  }
  if (plan.confidence > 0.5) {
    pairs.emplace_back(
        "ranges",
        "each end holds at " + PercentText(plan.confidence) + ", both at " +
            PercentText(2 * plan.confidence - 1));
  }
  pairs.emplace_back("bottleneck", plan.bottleneck);
  pairs.emplace_back("servers busy", PercentText(plan.server_busy));
  const bool is_prediction = plan.strategy.empty();
  if (is_prediction || plan.local_steps > 1) {
    pairs.emplace_back("computing", PercentText(plan.computing) + " of the workers' time");
    pairs.emplace_back(
        "a sample moves",
        FormatBytes(static_cast<uint64_t>(std::llround(plan.push_bytes_per_sample))) +
            " to the servers, " +
            FormatBytes(static_cast<uint64_t>(std::llround(plan.pull_bytes_per_sample))) + " back");
  }
  pairs.emplace_back(
      "planned by",
      (plan.strategy.empty() ? "" : plan.strategy + ", ") + plan.speed_model + " model" +
          (plan.objective == proto::Objective::kCost
               ? ""
               : ", for " + std::string(ObjectiveText(plan.objective))));
  if (!plan.strategy.empty()) {
    pairs.emplace_back("certainty", std::string(CertaintyText(plan.certainty)));
  }
  std::string text = run::RenderPairs(pairs) + RenderTables(plan, options);
  if (!plan.quotas.empty() || !plan.notes.empty()) {
    text += "\n";
  }
  for (const proto::PlanQuota& quota : plan.quotas) {
    text += "the quota of " + quota.instance_type + " is used up; one more saves " +
            FormatUsd(plan.usd.value - quota.usd) + " USD\n";
  }
  for (const std::string& note : plan.notes) {
    text += note + "\n";
  }
  return text;
}

std::string RenderExplanation(
    const proto::Catalog& catalog,
    const provisioner::PlanProblem& problem,
    const provisioner::FleetChoice& choice,
    size_t width_max) {
  const provisioner::SpeedModel& speed = *problem.speed;
  const size_t class_count = speed.classes().size();
  const provisioner::ServerSide side{
      choice.server_hosts,
      problem.servers[static_cast<size_t>(choice.server_offer)].link_bytes_per_s};
  std::vector<int> fleet(class_count, 0);
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    fleet[static_cast<size_t>(problem.offers[i].worker_class)] += choice.counts[i];
  }
  const std::vector<double> step_s = speed.StepSeconds(fleet, side);
  run::Table table(
      {{"type", run::Align::kLeft},
       {"chosen"},
       {"quota"},
       {"batch"},
       {"step alone, s"},
       {"in the fleet, s"},
       {"USD/h"},
       {"USD per M samples"},
       {"price of", run::Align::kLeft}});
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    const provisioner::Offer& offer = problem.offers[i];
    const auto k = static_cast<size_t>(offer.worker_class);
    const provisioner::WorkerClass& worker = speed.classes()[k];
    std::vector<int> alone(class_count, 0);
    alone[k] = 1;
    const double alone_s = speed.StepSeconds(alone, side)[k];
    const proto::InstanceType* type = catalog.Find(worker.name);
    std::string price_of = "on demand, " + catalog.as_of;
    if (offer.market == proto::Market::kSpot && type != nullptr) {
      const proto::SpotPrice* spot = provisioner::LowestSpot(*type);
      price_of = spot->zone + ", " + spot->as_of + (spot->is_estimate ? ", estimate" : "");
    }
    const double usd_per_sample = offer.usd_per_hour / 3600 * step_s[k] / worker.samples;
    table.AddRow(
        {worker.name,
         std::to_string(choice.counts[i]),
         std::to_string(offer.quota),
         WholeText(worker.samples),
         FormatFixed(alone_s, 3),
         FormatFixed(step_s[k], 3),
         FormatFixed(offer.usd_per_hour, 3),
         FormatFixed(usd_per_sample * 1e6, 3),
         price_of});
  }
  return table.Render(width_max) +
         "\nexchanges too late for the next step: " + FormatPercent(choice.speed.late, 0) + "\n";
}

std::string RenderInfeasible(const provisioner::Infeasible& why, const provisioner::Goal& goal) {
  const bool is_met = why.loss_start > 0;
  std::string text =
      (is_met ? "nothing to plan: " : "no fleet meets the goal: ") + why.reason + "\n";
  std::string nearest;
  const auto add = [&](const std::string& line) { nearest += "  " + line + "\n"; };
  const auto within = [](double seconds) {
    return "--within " + FormatFixed(std::ceil(seconds), 0) + "s";
  };
  const auto budget = [](double usd) {
    return "--budget " + FormatFixed(std::ceil(usd * 100) / 100, 2);
  };
  if (goal.loss > 0 && goal.loss <= why.loss_floor) {
    add("--loss above " + FormatRate(why.loss_floor));
  }
  if (is_met) {
    add("--loss below " + FormatFixed(std::floor(why.loss_start * 100) / 100, 2));
  }
  if (std::isfinite(why.seconds_min) && why.seconds_min > goal.seconds_max) {
    add(within(why.seconds_min) + "  (" + FormatDuration(why.seconds_min) + ", whatever it costs)");
  }
  if (std::isfinite(why.seconds_min_in_usd) && why.seconds_min_in_usd > goal.seconds_max) {
    add(within(why.seconds_min_in_usd) + " with " + budget(goal.usd_max));
  }
  if (std::isfinite(why.usd_min_in_time) && why.usd_min_in_time > goal.usd_max) {
    add(budget(why.usd_min_in_time) +
        (std::isfinite(goal.seconds_max) ? " with " + within(goal.seconds_max) : ""));
  }
  if (why.usd_per_hour_min > 0 && std::isfinite(why.usd_per_hour_min)) {
    add("--price-per-hour " + FormatFixed(std::ceil(why.usd_per_hour_min * 100) / 100, 2));
  }
  return text + (nearest.empty() ? ""
                                 : "nearest goals that can be " +
                                       std::string(is_met ? "planned" : "met") + ":\n" + nearest);
}

}  // namespace ps::psctl
