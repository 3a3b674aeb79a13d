#include "psctl/plan/capacity_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "psctl/traces/replay_command.h"
#include "run/planning/spot_capacity.h"

namespace ps::psctl {
namespace {

constexpr size_t kCapacityBytesMax = size_t{64} << 20;

std::string TypeOf(const provisioner::PlanProblem& problem, size_t offer) {
  return problem.speed->classes()[static_cast<size_t>(problem.offers[offer].worker_class)].name;
}

/// The spot offer of the type that the fleet has, or else its first one; nothing when none is.
Result<size_t> OfferOf(
    const provisioner::PlanProblem& problem,
    const provisioner::FleetChoice& choice,
    const std::string& type) {
  size_t found = problem.offers.size();
  for (size_t i = problem.offers.size(); i-- > 0;) {
    if (problem.offers[i].market == proto::Market::kSpot && TypeOf(problem, i) == type &&
        (found == problem.offers.size() || choice.counts[found] == 0)) {
      found = i;
    }
  }
  return found < problem.offers.size()
             ? Result<size_t>(found)
             : Status::InvalidArgument(fmt::format(
                   "--capacity is of spot machines of {}, which are not on offer: the profile has "
                   "no figures of it, the catalog no spot price, or --types leaves it out",
                   Printable(type)));
}

proto::PlanCapacity CapacityOf(const run::CapacityOutlook& outlook, bool has_limit) {
  return {
      .spare = {},
      .in_time = has_limit ? outlook.in_time : outlook.reached,
      .seconds = outlook.seconds,
      .usd = outlook.usd,
      .revoked = outlook.revocations};
}

}  // namespace

Result<std::vector<CapacityTrace>> ReadCapacity(const run::PlanCommand& command) {
  std::vector<CapacityTrace> traces;
  for (const std::string& text : command.capacities) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
      return Status::InvalidArgument(fmt::format(
          "--capacity wants TYPE=TRACE, as in p3.2xlarge=p3.csv; got '{}'", Printable(text)));
    }
    CapacityTrace some = {text.substr(0, equals), {}};
    if (std::ranges::count(traces, some.type, &CapacityTrace::type) > 0) {
      return Status::InvalidArgument(
          fmt::format("--capacity names {} twice", Printable(some.type)));
    }
    const std::string path = text.substr(equals + 1);
    PS_ASSIGN(const double unit_s, SecondsOfUnit(command.unit));
    PS_ASSIGN(const GapRule gaps, GapRuleOf(command.gaps));
    PS_ASSIGN(const std::string lines, ReadFile(path, kCapacityBytesMax));
    PS_ASSIGN(some.trace, ParseTrace(lines, path, unit_s, gaps));
    traces.push_back(std::move(some));
  }
  return traces;
}

Status AddCapacity(
    const std::vector<CapacityTrace>& traces,
    const run::Planning& planning,
    const provisioner::FleetChoice& choice,
    proto::Plan* plan) {
  if (traces.empty()) {
    return Status::Ok();
  }
  const provisioner::PlanProblem& problem = planning.problem;
  std::vector<run::SpotPool> pools;
  std::vector<run::SpotPool> spares;
  for (const CapacityTrace& some : traces) {
    PS_ASSIGN(const size_t offer, OfferOf(problem, choice, some.type));
    if (some.trace.end_s < choice.seconds) {
      return Status::InvalidArgument(fmt::format(
          "--capacity: the trace of {} is of {}, and the plan takes {}: give a longer one",
          Printable(some.type),
          FormatDuration(some.trace.end_s),
          FormatDuration(choice.seconds)));
    }
    run::SpotPool pool = {offer, {}, some.trace.end_s};
    for (const TraceStep& step : some.trace.steps) {
      pool.steps.push_back({step.at_s, step.nodes});
    }
    (choice.counts[offer] > 0 ? pools : spares).push_back(std::move(pool));
  }
  if (pools.empty()) {
    plan->notes.push_back("the plan has no spot machines of the types that --capacity names");
    return Status::Ok();
  }
  const double limit_s = problem.goal.seconds_max;
  const run::PoolTimes times = {choice.start_s, planning.outlook.detect_s};
  run::SpotCapacity capacity(problem, pools, times);
  const run::CapacityOutlook outlook = capacity.Expect(choice, limit_s);
  plan->capacity.push_back(CapacityOf(outlook, std::isfinite(limit_s)));
  for (const run::PoolPoint& point : outlook.points) {
    for (const run::SpotPool& pool : pools) {
      plan->capacity.back().points.push_back(
          {TypeOf(problem, pool.offer), point.at_s, point.working[pool.offer]});
    }
  }
  for (const run::SpotPool& spare : spares) {
    plan->capacity.push_back(
        CapacityOf(capacity.Expect(choice, limit_s, &spare), std::isfinite(limit_s)));
    plan->capacity.back().spare = TypeOf(problem, spare.offer);
  }
  plan->notes.push_back(fmt::format(
      "capacity: of {} along the traces; types without a trace are taken to be there, and the past "
      "to come again",
      Plural(static_cast<uint64_t>(outlook.beginnings), "beginning")));
  return Status::Ok();
}

}  // namespace ps::psctl
