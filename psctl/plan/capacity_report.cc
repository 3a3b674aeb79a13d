#include "psctl/plan/capacity_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "psctl/traces/replay_command.h"
#include "run/planning/capacity/capacity_addition.h"
#include "run/planning/spot_traces.h"

namespace ps::psctl {
namespace {

constexpr size_t kCapacityBytesMax = size_t{64} << 20;
constexpr size_t kTracesMax = 64;
// In all traces together: each run along them may keep a copy of every machine.
constexpr uint64_t kMachinesMax = 2'000'000;

const std::string& TypeOf(const provisioner::PlanProblem& problem, size_t offer) {
  return problem.speed->classes()[static_cast<size_t>(problem.offers[offer].worker_class)].name;
}

/// "TYPE@ZONE=TRACE", without what the trace says. Errors: kInvalidArgument.
Result<std::pair<run::SpotTrace, std::string>> ParseCapacity(const std::string& text) {
  const size_t equals = text.find('=');
  const size_t at = text.substr(0, equals).find('@');
  const bool has_zone = at != std::string::npos;
  const std::string type = text.substr(0, has_zone ? at : equals);
  const std::string zone =
      has_zone && equals != std::string::npos ? text.substr(at + 1, equals - at - 1) : "";
  if (equals == std::string::npos || equals + 1 == text.size() || type.empty() ||
      (has_zone && zone.empty())) {
    return Status::InvalidArgument(fmt::format(
        "--capacity wants TYPE=TRACE or TYPE@ZONE=TRACE, as in p3.2xlarge=p3.csv; got '{}'",
        Printable(text)));
  }
  return std::pair(run::SpotTrace{type, zone, {}}, text.substr(equals + 1));
}

/// Machines that come while the trace goes on.
uint64_t MachinesIn(const AvailabilityTrace& trace) {
  uint64_t machines = 0;
  uint32_t before = 0;
  for (const TraceStep& step : trace.steps) {
    machines += step.nodes > before ? step.nodes - before : 0;
    before = step.nodes;
  }
  return machines;
}

run::TraceProblem TracesOf(const run::Planning& planning, const run::SpotCapacity& capacity) {
  return {
      .problem = planning.problem,
      .capacity = capacity,
      .objective = planning.objective,
      .zoned = planning.zoned};
}

proto::PlanCapacity RowOf(
    const run::Planning& planning,
    const provisioner::FleetChoice& choice,
    const run::CapacityOutlook& outlook,
    const std::string& change) {
  proto::PlanCapacity row;
  row.change = change;
  row.workers = run::AlternativeOf(planning.problem, planning.profile, choice, "").workers;
  row.in_goal = outlook.in_goal;
  row.reached = outlook.reached;
  row.seconds = outlook.seconds;
  row.usd = outlook.usd;
  row.revoked = outlook.revocations;
  return row;
}

/// Until when a run has to be through: runs are followed for twice that. Without a time in the goal
/// for half of the shortest trace, so that slow fleets get to the loss as well.
double LimitSeconds(const run::Planning& planning, double least_s) {
  const double within_s = planning.problem.goal.seconds_max;
  if (std::isfinite(within_s)) {
    return within_s;
  }
  double shortest_s = within_s;
  for (const run::SpotTrace& trace : planning.spot_traces) {
    shortest_s = std::min(shortest_s, trace.end_s);
  }
  return std::max(least_s, shortest_s / 4);
}

void NameSpare(const run::Planning& planning, size_t pool, proto::PlanCapacity* row) {
  row->spare = planning.spot_traces[pool].type;
  row->zone = planning.spot_traces[pool].zone;
}

bool Uses(const provisioner::FleetChoice& choice, const run::SpotPool& pool) {
  return std::ranges::any_of(pool.offers, [&](size_t offer) { return choice.counts[offer] > 0; });
}

bool IsSame(const provisioner::FleetChoice& a, const provisioner::FleetChoice& b) {
  return a.counts == b.counts && a.server_offer == b.server_offer &&
         a.server_hosts == b.server_hosts;
}

void AddPoints(
    const run::Planning& planning,
    const run::SpotCapacity& capacity,
    const provisioner::FleetChoice& choice,
    const run::CapacityOutlook& outlook,
    proto::PlanCapacity* row) {
  for (size_t p = 0; p < capacity.pools().size(); ++p) {
    const run::SpotPool& pool = capacity.pools()[p];
    if (!Uses(choice, pool)) {
      continue;
    }
    const run::SpotTrace& trace = planning.spot_traces[p];
    for (const run::PoolPoint& point : outlook.points) {
      row->points.push_back({trace.type, trace.zone, point.at_s, point.working[p]});
    }
  }
}

/// "each run of 100 along the traces, in windows of 2h 00m; 412 fleets followed, ..."
std::string HowText(const TracedPlan& traced) {
  std::string text = fmt::format(
      "capacity: {} along the traces, each followed for {}; types without a trace are taken to be "
      "there, and the past to come again",
      Plural(static_cast<uint64_t>(traced.capacity->windows()), "run"),
      FormatDuration(traced.capacity->window_s()));
  if (!traced.chosen) {
    return text + "; the strategy chose without them";
  }
  const run::TraceAnswer& chosen = *traced.chosen;
  return text + fmt::format(
                    "; {} followed, {} judged by bounds{}",
                    Plural(chosen.followed, "fleet"),
                    FormatCount(chosen.seen - std::min(chosen.seen, chosen.followed)),
                    chosen.certainty == proto::Certainty::kBestFound
                        ? ", but not all that there are: a better one may exist"
                        : ", all that there are");
}

Status NothingToFollow(const run::Planning& planning, const run::SpotCapacity& capacity) {
  const bool is_any_ever =
      provisioner::MostWorkers(run::Narrowed(TracesOf(planning, capacity))) > 0;
  return Status::InvalidArgument(fmt::format(
      "--capacity: along the traces there never {} on offer; offer other types (--types), or "
      "machines on demand (--market both)",
      is_any_ever ? "are enough machines for any fleet" : "is a machine of any type"));
}

}  // namespace

Result<std::vector<run::SpotTrace>> ReadCapacity(const run::PlanCommand& command) {
  std::vector<run::SpotTrace> traces;
  if (command.capacities.empty()) {
    return traces;
  }
  if (command.objective == "throughput-per-hour") {
    return Status::InvalidArgument(
        "--capacity is followed to a loss, which --objective throughput-per-hour does not plan: "
        "leave it out, or take --objective cost or time");
  }
  if (!command.has_within && !command.has_budget) {
    return Status::InvalidArgument(
        "--capacity tells the chance to keep a goal, and there is none: give --within, --budget or "
        "both");
  }
  if (command.capacities.size() > kTracesMax) {
    return Status::InvalidArgument(
        fmt::format("--capacity: at most {} traces can be followed", kTracesMax));
  }
  PS_ASSIGN(const double unit_s, SecondsOfUnit(command.unit));
  PS_ASSIGN(const GapRule gaps, GapRuleOf(command.gaps));
  uint64_t machines = 0;
  for (const std::string& text : command.capacities) {
    PS_ASSIGN(auto parsed, ParseCapacity(text));
    auto& [some, path] = parsed;
    traces.push_back(std::move(some));
    PS_TRY(run::CheckSpotTraces(traces));
    if (!traces.back().zone.empty() && command.strategy != "exact") {
      return Status::InvalidArgument(fmt::format(
          "--capacity {}@{}: the strategy {} does not know that zones of a type share its quota; "
          "give one trace of the type, or leave out --strategy",
          Printable(traces.back().type),
          Printable(traces.back().zone),
          Printable(command.strategy)));
    }
    PS_ASSIGN(const std::string lines, ReadFile(path, kCapacityBytesMax));
    PS_ASSIGN(const AvailabilityTrace trace, ParseTrace(lines, path, unit_s, gaps));
    machines += MachinesIn(trace);
    if (machines > kMachinesMax) {
      return Status::InvalidArgument(fmt::format(
          "{}: with it the traces have {} machines that come, and {} can be followed: give a "
          "shorter or coarser one",
          Printable(path),
          FormatCount(machines),
          FormatCount(kMachinesMax)));
    }
    for (const TraceStep& step : trace.steps) {
      traces.back().steps.push_back({step.at_s, step.nodes});
    }
    traces.back().end_s = trace.end_s;
  }
  return traces;
}

Result<TracedPlan> FollowTraces(
    const run::PlanCommand& command,
    const run::Planning& planning,
    provisioner::PlanAnswer* answer) {
  TracedPlan traced;
  if (command.spot_traces.empty()) {
    return traced;
  }
  PS_ASSIGN(
      traced.capacity,
      run::MakeSpotCapacity(planning, LimitSeconds(planning, answer->best.front().seconds)));
  // Searches without the traces know the quota of each zone's offer alone.
  std::erase_if(answer->best, [&](const provisioner::FleetChoice& choice) {
    return !run::KeepsQuotas(planning.zoned, choice.counts);
  });
  if (!answer->best.empty()) {
    traced.without = answer->best.front();
  }
  if (!run::ChoosesByTraces(command)) {
    return traced;
  }
  PS_ASSIGN(traced.chosen, run::SolveAlongTraces(TracesOf(planning, *traced.capacity)));
  const run::TraceAnswer& chosen = *traced.chosen;
  if (chosen.best.empty() && !chosen.is_stopped) {
    return NothingToFollow(planning, *traced.capacity);
  }
  if (chosen.best.empty()) {
    if (answer->best.empty()) {
      return Status::DeadlineExceeded(
          "the search ended before it found a fleet within the quotas of all zones together");
    }
    traced.chosen.reset();  // stopped before the first one: what there is without the traces
    answer->is_stopped = true;
    return traced;
  }
  answer->best.clear();
  for (const run::FollowedFleet& fleet : chosen.best) {
    answer->best.push_back(fleet.choice);
  }
  answer->fleets_evaluated += chosen.seen;
  answer->certainty = std::min(answer->certainty, chosen.certainty);
  answer->usd_bound = 0;  // that of plans without the traces
  answer->is_stopped = answer->is_stopped || chosen.is_stopped;
  return traced;
}

void AddCapacity(
    const run::Planning& planning,
    const TracedPlan& traced,
    const provisioner::FleetChoice& choice,
    proto::Plan* plan) {
  if (traced.capacity == nullptr) {
    return;
  }
  const run::SpotCapacity& capacity = *traced.capacity;
  const auto add = [&](const provisioner::FleetChoice& fleet,
                       const run::CapacityOutlook& outlook,
                       const char* change) -> proto::PlanCapacity& {
    return plan->capacity.emplace_back(RowOf(planning, fleet, outlook, change));
  };
  run::OutlookLimits waited_for;
  waited_for.goes_on = [&] {
    return planning.problem.watch == nullptr || planning.problem.watch->GoesOn({});
  };
  const run::CapacityOutlook outlook =
      traced.chosen ? traced.chosen->best.front().outlook : capacity.Expect(choice, {}, waited_for);
  if (outlook.is_cut) {
    plan->notes.push_back("the search ended before the plan was followed along the traces");
    return;
  }
  AddPoints(planning, capacity, choice, outlook, &add(choice, outlook, ""));
  const auto add_waited_for = [&](const provisioner::FleetChoice& fleet,
                                  std::optional<size_t> spare,
                                  const char* change) -> proto::PlanCapacity* {
    const run::CapacityOutlook some = capacity.Expect(fleet, spare, waited_for);
    return some.is_cut ? nullptr : &add(fleet, some, change);
  };
  if (traced.without && !IsSame(choice, *traced.without)) {
    add_waited_for(*traced.without, {}, "without_traces");
  }
  if (const auto addition = run::BestAddition(TracesOf(planning, capacity), {choice, outlook})) {
    proto::PlanCapacity& row = add(
        addition->fleet.choice, addition->fleet.outlook, addition->taken > 0 ? "swapped" : "added");
    NameSpare(planning, addition->pool, &row);
    row.spares = addition->added;
    row.taken = addition->taken;
    row.taken_of = addition->taken > 0 ? TypeOf(planning.problem, addition->from) : "";
  }
  bool has_pools = false;
  for (size_t p = 0; p < capacity.pools().size(); ++p) {
    has_pools = has_pools || Uses(choice, capacity.pools()[p]);
  }
  for (size_t p = 0; p < capacity.pools().size() && has_pools; ++p) {
    if (!Uses(choice, capacity.pools()[p])) {
      proto::PlanCapacity* const row = add_waited_for(choice, p, "stands_in");
      if (row != nullptr) {
        NameSpare(planning, p, row);
      }
    }
  }
  if (!has_pools) {
    plan->notes.push_back("the plan has no spot machines of the types that --capacity names");
  }
  plan->notes.push_back(HowText(traced));
  plan->traces = {
      .windows = capacity.windows(),
      .window_s = capacity.window_s(),
      .is_chosen_by = traced.chosen.has_value(),
      .is_kept = outlook.in_goal >= planning.problem.goal.confidence - 1e-9,
      .fleets_seen = traced.chosen ? static_cast<int>(traced.chosen->seen) : 0,
      .fleets_followed = traced.chosen ? static_cast<int>(traced.chosen->followed) : 0};
}

std::string MissedText(const TracedPlan& traced, double confidence) {
  return fmt::format(
      "no fleet keeps the goal along the traces at {}: this one most likely does, at {}",
      FormatPercent(confidence, 0),
      FormatPercent(traced.chosen->best.front().outlook.in_goal, 0));
}

}  // namespace ps::psctl
