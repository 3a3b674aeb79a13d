#include "psctl/plan_view.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "psctl/tables.h"
#include "psctl/text.h"

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

/// "+12 %", "-0.5 %"
std::string ChangeText(double share) {
  const double percent = share * 100;
  const int decimals = std::abs(percent) < 9.95 ? 1 : 0;
  const std::string digits = FormatFixed(std::abs(percent), decimals);
  const bool is_zero = digits.find_first_not_of("0.") == std::string::npos;
  return is_zero ? "0 %" : (percent < 0 ? "-" : "+") + digits + " %";
}

std::string RenderGains(const PlanView& view, size_t width_max) {
  const bool has_time = view.plan.seconds.value > 0;
  std::vector<Column> columns = {{"with", Align::kLeft}, {"speed"}};
  if (has_time) {
    columns.insert(columns.end(), {{"time"}, {"USD"}, {"USD more"}});
  }
  Table table(std::move(columns));
  for (const provisioner::Gain& gain : view.gains) {
    std::vector<std::string> cells = {gain.change, ChangeText(gain.speed_share)};
    if (has_time) {
      const double usd_more = gain.usd / view.plan.usd.value - 1;
      cells.insert(
          cells.end(), {FormatDuration(gain.seconds), FormatUsd(gain.usd), ChangeText(usd_more)});
    }
    table.AddRow(std::move(cells));
  }
  return table.Render(width_max);
}

std::string RenderAlternatives(const PlanView& view, size_t width_max) {
  Table table(
      {{"plan", Align::kLeft},
       {"workers", Align::kLeft},
       {"servers", Align::kLeft},
       {"samples/s", Align::kRight, 2},
       {"time"},
       {"USD"},
       {"USD more", Align::kRight, 1}},
      kFleetWidthMax);
  const auto add = [&](const std::string& name, const PlanView::Alternative& other) {
    table.AddRow(
        {name,
         other.fleet,
         other.servers,
         WholeText(other.plan.samples_per_s.value),
         FormatDuration(other.plan.seconds.value),
         FormatUsd(other.plan.usd.value),
         ChangeText(other.plan.usd.value / view.plan.usd.value - 1)});
  };
  add("chosen", {view.fleet, view.servers, view.plan});
  for (const PlanView::Alternative& other : view.next_best) {
    add("next best", other);
  }
  if (view.on_demand) {
    add("on demand", *view.on_demand);
  }
  return table.Render(width_max);
}

/// "2 p3.2xlarge, 1 g3.8xlarge": the held workers of a plan, or those that are not; "none".
std::string PartText(const proto::Plan& plan, bool is_held) {
  std::string text;
  for (const proto::PlanWorkers& workers : plan.workers) {
    const int count = is_held ? workers.held : workers.count - workers.held;
    if (count > 0) {
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + workers.instance_type;
    }
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::string GoalText(const proto::Plan& plan) {
  std::string text = "loss " + FormatRate(plan.loss_target);
  if (plan.seconds_max > 0) {
    text += " within " + FormatDuration(plan.seconds_max);
  }
  if (plan.usd_max > 0) {
    text += (plan.seconds_max > 0 ? " and " : " for at most ") + FormatUsd(plan.usd_max) + " USD";
  }
  return text + " at " + PercentText(plan.confidence) + " confidence";
}

std::string RenderPlan(const PlanView& view, size_t width_max) {
  const proto::Plan& plan = view.plan;
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"job", plan.job},
      {"workers", view.fleet},
      {"servers", view.servers},
      {"samples/s", Spread(plan.samples_per_s, WholeText)}};
  if (view.has_held) {
    const bool is_new = PartText(plan, /*is_held=*/false) != "none";
    const bool takes_over = is_new && plan.takeover_s > 0;
    const std::pair<std::string, std::string> parts[] = {
        {"kept", PartText(plan, /*is_held=*/true)},
        {"new",
         PartText(plan, /*is_held=*/false) +
             (takes_over ? "; taking over costs " + FormatDuration(plan.takeover_s) : "")}};
    pairs.insert(pairs.begin() + 2, std::begin(parts), std::end(parts));
  }
  if (plan.seconds.value > 0) {
    pairs.insert(pairs.begin() + 1, {"goal", GoalText(plan)});
    pairs.emplace_back("steps", Spread(plan.steps, WholeText));
    pairs.emplace_back("time", Spread(plan.seconds, FormatDuration));
    pairs.emplace_back("loss", "reaches " + FormatRate(plan.loss_target));
    pairs.emplace_back("cost, USD", Spread(plan.usd, FormatUsd));
  }
  pairs.emplace_back("bottleneck", plan.bottleneck);
  pairs.emplace_back("servers busy", PercentText(view.server_busy));
  pairs.emplace_back(
      "planned by",
      (plan.strategy.empty() ? "" : plan.strategy + ", ") + plan.speed_model + " model");
  std::string text = RenderPairs(pairs);
  if (!view.next_best.empty() || view.on_demand) {
    text += "\n" + RenderAlternatives(view, width_max);
  }
  if (!view.gains.empty()) {
    text += "\nwhat more would buy\n" + RenderGains(view, width_max);
  }
  if (!view.quotas.empty() || !view.notes.empty()) {
    text += "\n";
  }
  for (const provisioner::QuotaGain& gain : view.quotas) {
    text += "the quota of " + gain.instance_type + " is used up; one more saves " +
            FormatUsd(plan.usd.value - gain.usd) + " USD\n";
  }
  for (const std::string& note : view.notes) {
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
  Table table(
      {{"type", Align::kLeft},
       {"chosen"},
       {"quota"},
       {"batch"},
       {"step alone, s"},
       {"in the fleet, s"},
       {"USD/h"},
       {"USD per M samples"},
       {"price of", Align::kLeft}});
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
  std::string text = "no fleet meets the goal: " + why.reason + "\n";
  std::string nearest;
  const auto add = [&](const std::string& line) { nearest += "  " + line + "\n"; };
  const auto within = [](double seconds) {
    return "--within " + FormatFixed(std::ceil(seconds), 0) + "s";
  };
  const auto budget = [](double usd) {
    return "--budget " + FormatFixed(std::ceil(usd * 100) / 100, 2);
  };
  if (goal.loss <= why.loss_floor) {
    add("--loss above " + FormatRate(why.loss_floor));
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
  return text + (nearest.empty() ? "" : "nearest goals that can be met:\n" + nearest);
}

}  // namespace ps::psctl
