#include "psctl/plan/parcae_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/planner/vcpu_room.h"
#include "provisioner/strategies/forecast.h"
#include "provisioner/strategies/look_ahead.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "psctl/traces/forecast_command.h"
#include "psctl/traces/replay_command.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/planning.h"
#include "run/planning/start_plan.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

constexpr size_t kParcaeTraceBytesMax = size_t{64} << 20;
constexpr size_t kHistoryMax = 1'000'000;
constexpr char kForecast[] = "parcae-arima";
constexpr char kPlanned[] = "parcae";
constexpr char kAsNow[] = "as if nothing changed";

/// A number of workers, and what it is expected to make.
struct ParcaeChoice {
  std::string name;
  uint32_t workers = 0;
  double liveput = 0;  // samples/s over the intervals to come
};

struct ParcaeOutlook {
  std::string type;
  std::string servers;
  double interval_s = 0;
  double usd_per_hour = 0;  // of a worker
  double start_s = 0;       // of a machine
  std::string start_note;   // where that was measured; empty: there is nothing to say
  bool ignores_forecast = false;
  std::string forecast_by;   // the predictor, or "current": the count stays
  std::string why_no_other;  // empty: it is the one that was asked for
  uint32_t available = 0;
  uint32_t working = 0;
  std::vector<double> samples_per_s;
  std::vector<double> counts;         // forecast
  std::vector<ParcaeChoice> choices;  // the first one is the plan

  /// The forecast, no more than the quota.
  std::vector<double> told_counts() const {
    std::vector<double> told = counts;
    for (double& count : told) {
      count = std::min(count, static_cast<double>(samples_per_s.size() - 1));
    }
    return told;
  }
};

Status CheckParcaeFlags(const run::PlanCommand& command) {
  const struct {
    const char* flag;
    bool is_given;
  } others[] = {
      {"--loss", command.common.loss != 0},
      {"--within", command.has_within},
      {"--budget", command.has_budget},
      {"--capacity", !command.capacities.empty()},
      {"--price-per-hour", command.usd_per_hour != 0},
      {"--objective", command.objective != "cost"},
      {"--lifetimes", !command.lifetimes.empty()},
      {"--local-steps-max", command.local_steps_max != 0},
      {"--quota-on-demand", !command.on_demand_quotas.empty()},
      {"--without", !command.without.empty()},
      {"--market", !command.common.market.empty()},
      {"--run", !command.run.empty()},
      {"--plot", !command.plot_path.empty()},
      {"--output", !command.output.empty()}};

  for (const auto& other : others) {
    if (other.is_given) {
      return Status::InvalidArgument(fmt::format(
          "--strategy parcae does not support {}: it plans one interval of a fleet of spot "
          "machines; leave it out, or take the strategy exact",
          other.flag));
    }
  }
  if (command.trace_path.empty() == command.history.empty()) {
    return Status::InvalidArgument(
        "--strategy parcae wants the counts of machines until now: either --trace FILE, with --at "
        "if now is not its end, or --history, as in --history 12,12,11,13");
  }
  if (command.types.size() != 1 || command.servers.size() != 1) {
    return Status::InvalidArgument(
        "--strategy parcae plans machines of one type: name it and the servers, as in --types "
        "p3.2xlarge --servers m5.xlarge=1");
  }
  return Status::Ok();
}

Result<std::vector<uint32_t>> ParseHistory(const std::string& text) {
  std::vector<uint32_t> counts;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    uint32_t count = 0;
    const auto [next, error] = std::from_chars(at, end, count);
    const bool ends_well = next == end || *next == ',';
    if (error != std::errc() || !ends_well || count > kTraceNodesMax ||
        counts.size() == kHistoryMax) {
      return Status::InvalidArgument(fmt::format(
          "--history wants counts of machines up to {}, an interval each and the last one now, as "
          "in 12,12,11,13; got '{}'",
          kTraceNodesMax,
          Printable(Clip(text, 60))));
    }
    counts.push_back(count);
    if (next == end) {
      return counts;
    }
    at = next + 1;
  }
}

/// The counts until now, an interval each.
Result<std::vector<uint32_t>> CountsUntilNow(const run::PlanCommand& command, double interval_s) {
  if (!command.history.empty()) {
    return ParseHistory(command.history);
  }
  PS_ASSIGN(const double unit_s, SecondsOfUnit(command.unit));
  PS_ASSIGN(const GapRule gaps, GapRuleOf(command.gaps));
  PS_ASSIGN(const std::string text, ReadFile(command.trace_path, kParcaeTraceBytesMax));
  PS_ASSIGN(const AvailabilityTrace trace, ParseTrace(text, command.trace_path, unit_s, gaps));
  PS_ASSIGN(std::vector<uint32_t> counts, CountsOf(trace, interval_s));
  if (command.at.empty()) {
    return counts;
  }
  PS_ASSIGN(const double at_s, run::ParseDuration("--at", command.at));
  if (at_s > trace.end_s) {
    return Status::InvalidArgument(fmt::format(
        "--at {} is after the end of {}, which is {} long",
        Printable(command.at),
        Printable(command.trace_path),
        FormatDuration(trace.end_s)));
  }
  counts.resize(static_cast<size_t>(at_s / interval_s) + 1);
  return counts;
}

/// Speeds of every number of workers up to the type's quota, and the price of one.
Status UseModels(const run::PlanCommand& command, ParcaeOutlook* outlook) {
  run::Planning planning("");
  provisioner::PlanSetup& setup = planning.input.setup;
  PS_ASSIGN(planning.input.models.instance_types, run::ParseTypes("--types", command.types));
  PS_ASSIGN(setup.servers, run::ParseServerRanges("--servers", command.servers));
  PS_ASSIGN(setup.quotas, run::ParseTypeCounts("--quota", command.quotas));
  PS_ASSIGN(setup.vcpu_quotas, run::ParseFamilyQuotas("--quota-vcpus", command.vcpu_quotas));
  PS_ASSIGN(setup.held, run::ParseTypeCounts("--held", command.held));
  const provisioner::ServerRange& servers = setup.servers.front();
  if (planning.input.models.instance_types.size() != 1 || setup.servers.size() != 1 ||
      servers.hosts_min != servers.hosts_max) {
    return Status::InvalidArgument(
        "--strategy parcae plans one type of machine behind given servers, as in --types "
        "p3.2xlarge --servers m5.xlarge=1");
  }
  outlook->type = planning.input.models.instance_types.front();
  setup.goal.seconds_max = std::numeric_limits<double>::infinity();
  setup.goal.usd_max = std::numeric_limits<double>::infinity();
  run::PlanningCommand common = command.common;
  common.market = "both";
  PS_TRY(run::PreparePlanning(common, &planning));
  const proto::InstanceType& type = *planning.catalog.Find(outlook->type);
  const proto::SpotPrice* const spot = provisioner::LowestSpot(type);
  if (spot == nullptr) {
    return Status::InvalidArgument(fmt::format(
        "the catalog has no spot[] price of {}, so it has no spot machines to plan", type.name));
  }
  std::optional<double> start_s;
  if (!command.start_up.empty()) {
    PS_ASSIGN(start_s, run::ParseDurationOrZero("--start-up", command.start_up));
  }
  outlook->start_s = run::StartSecondsOf(planning, type.name, start_s);
  outlook->start_note = start_s ? "" : run::StartNoteOf(planning, type.name);
  outlook->usd_per_hour = spot->usd_per_hour;
  outlook->servers = fmt::format("{} {}", servers.hosts_min, servers.instance_type);
  const provisioner::Offer& offer = planning.problem.offers.front();
  outlook->working =
      setup.held.empty() ? std::numeric_limits<uint32_t>::max() : static_cast<uint32_t>(offer.held);
  const provisioner::ServerSide side = {
      servers.hosts_min, planning.problem.servers.front().link_bytes_per_s};
  std::vector<int> counts(planning.problem.speed->classes().size(), 0);
  outlook->samples_per_s = {0};
  const int workers_max = std::min(
      {offer.quota,
       static_cast<int>(kTraceNodesMax),
       planning.problem.servers.front().memory.WorkersMax(servers.hosts_min)});
  const provisioner::VcpuRoom room(planning.problem, 0, servers.hosts_min);
  for (int n = 1; n <= workers_max && room.Fits(std::span(&n, 1)); ++n) {
    counts.front() = n;
    const double rate = planning.problem.speed->Predict(counts, side).samples_per_s;
    outlook->samples_per_s.push_back(std::max(outlook->samples_per_s.back(), rate));
  }
  if (outlook->samples_per_s.size() < 2) {
    return Status::InvalidArgument(fmt::format(
        "no {} is within the quotas: raise that of the type in the catalog (types[].quota) or with "
        "--quota, and that of its family there (vcpu_quotas) or with --quota-vcpus",
        type.name));
  }
  return Status::Ok();
}

Result<ParcaeOutlook> LookAtParcae(const run::PlanCommand& command) {
  PS_TRY(CheckParcaeFlags(command));
  ParcaeOutlook outlook;
  PS_ASSIGN(outlook.interval_s, run::ParseDuration("--interval", command.interval));
  PS_ASSIGN(const std::vector<uint32_t> history, CountsUntilNow(command, outlook.interval_s));
  PS_TRY(UseModels(command, &outlook));
  outlook.available = history.back();
  outlook.working = std::min(outlook.working, outlook.available);
  const provisioner::LookAheadJob job = {
      .samples_per_s = outlook.samples_per_s,
      .start_s = outlook.start_s,
      .interval_s = outlook.interval_s};
  // As the policy of that name: no upper bound, since a forecast cut off at the workers would make
  // losses of machines that are merely not needed.
  const provisioner::ParcaeBounds bounds = {
      .low = static_cast<int>(job.workers_max() / 4), .high = std::numeric_limits<int>::max()};
  auto predictor = provisioner::MakePredictor(kForecast, provisioner::kLookAheadIntervals, bounds);
  if (history.size() < predictor->history_min()) {
    outlook.why_no_other = fmt::format(
        "{} wants {} counts and there {}",
        kForecast,
        predictor->history_min(),
        history.size() == 1 ? "is 1" : fmt::format("are {}", history.size()));
    predictor = provisioner::MakePredictor("current", provisioner::kLookAheadIntervals, bounds);
  }
  outlook.forecast_by = predictor->name();
  outlook.counts = provisioner::ForecastAhead(job, predictor.get(), history);
  const std::vector<double> stays(outlook.counts.size(), outlook.available);
  const provisioner::LookAheadView view = {outlook.available, outlook.working, outlook.counts};
  const provisioner::LookAheadView hold = {outlook.available, outlook.working, stays};
  const double seconds = outlook.interval_s * static_cast<double>(outlook.counts.size());
  const auto add = [&](const char* name, uint32_t workers) {
    outlook.choices.push_back(
        {name, workers, provisioner::ExpectSamples(job, view, workers) / seconds});
  };
  const uint32_t by_forecast = provisioner::ChooseWorkers(job, view);
  const uint32_t by_now = provisioner::ChooseWorkers(job, hold);
  const uint32_t most = std::min(outlook.available, job.workers_max());
  outlook.ignores_forecast = command.ignores_revocations;
  const uint32_t chosen = outlook.ignores_forecast ? by_now : by_forecast;
  add(outlook.ignores_forecast ? kAsNow : kPlanned, chosen);
  add(outlook.ignores_forecast ? kPlanned : kAsNow,
      outlook.ignores_forecast ? by_forecast : by_now);
  add("all that can be had", most);
  if (chosen > 0) {
    add("one less", chosen - 1);
  }
  if (chosen < most) {
    add("one more", chosen + 1);
  }
  return outlook;
}

constexpr size_t kToldMax = 12;  // counts of a forecast, which is long where machines start slowly

std::string PlannedBy(const ParcaeOutlook& outlook) {
  if (outlook.ignores_forecast) {
    return fmt::format("parcae, {} (--ignore-revocations)", kAsNow);
  }
  if (!outlook.why_no_other.empty()) {
    return fmt::format("parcae, {}: {}", kAsNow, outlook.why_no_other);
  }
  return fmt::format("parcae, forecast {}", outlook.forecast_by);
}

std::string RenderParcae(const ParcaeOutlook& outlook) {
  std::string counts;
  const std::vector<double> told = outlook.told_counts();
  for (size_t i = 0; i < std::min(told.size(), kToldMax); ++i) {
    counts += fmt::format("{}{:g}", counts.empty() ? "" : " ", told[i]);
  }
  counts += told.size() > kToldMax ? " ..." : "";
  const ParcaeChoice& plan = outlook.choices.front();
  std::string text = run::RenderPairs(
      {{"machines",
        fmt::format("{} {} now, {} working", outlook.available, outlook.type, outlook.working)},
       {"forecast",
        fmt::format("{} in the next intervals of {}", counts, FormatDuration(outlook.interval_s))},
       {"workers", fmt::format("{} {}", plan.workers, outlook.type)},
       {"servers", outlook.servers},
       {"samples/s", FormatRate(outlook.samples_per_s[plan.workers])},
       {"liveput", FormatRate(plan.liveput)},
       {"planned by", PlannedBy(outlook)}});
  run::Table table(
      {{"plan", run::Align::kLeft},
       {"workers"},
       {"samples/s"},
       {"liveput"},
       {"of the best, %"},
       {"USD/h"}});
  double all = 0;
  for (const ParcaeChoice& choice : outlook.choices) {
    all = std::max(all, choice.liveput);
  }
  for (const ParcaeChoice& choice : outlook.choices) {
    table.AddRow(
        {choice.name,
         std::to_string(choice.workers),
         FormatRate(outlook.samples_per_s[choice.workers]),
         FormatRate(choice.liveput),
         all > 0 ? fmt::format("{:.1f}", 100 * choice.liveput / all) : "-",
         FormatUsd(choice.workers * outlook.usd_per_hour)});
  }
  return text + "\n" + table.Render() +
         "liveput: samples/s expected over the forecast intervals, with starts and losses\n" +
         (outlook.start_note.empty() ? "" : outlook.start_note + "\n");
}

std::string ParcaeJson(const ParcaeOutlook& outlook) {
  JsonWriter json;
  json.BeginObject();
  json.Field("strategy", "parcae");
  json.Field("instance_type", outlook.type);
  json.Field("available", outlook.available);
  json.Field("working", outlook.working);
  json.Field("interval_s", outlook.interval_s);
  json.Field("start_s", outlook.start_s);
  json.Field("forecast_by", outlook.forecast_by);
  json.BeginList("forecast");
  for (const double count : outlook.told_counts()) {
    json.Value(count);
  }
  json.EndList();
  json.BeginList("plans");
  for (const ParcaeChoice& choice : outlook.choices) {
    json.BeginObject();
    json.Field("name", choice.name);
    json.Field("workers", choice.workers);
    json.Field("samples_per_s", outlook.samples_per_s[choice.workers]);
    json.Field("liveput", choice.liveput);
    json.Field("usd_per_hour", choice.workers * outlook.usd_per_hour);
    json.EndObject();
  }
  json.EndList();
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace

int RunParcaePlan(const run::PlanCommand& command, const run::Console& console) {
  const Result<ParcaeOutlook> outlook = LookAtParcae(command);
  if (!outlook.ok()) {
    return run::Misuse(console, outlook.status());
  }
  console.out(command.common.is_json ? ParcaeJson(*outlook) : RenderParcae(*outlook));
  return run::kExitOk;
}

}  // namespace ps::psctl
