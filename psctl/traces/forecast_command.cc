#include "psctl/traces/forecast_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "provisioner/strategies/forecast.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "psctl/cli/arguments.h"
#include "psctl/traces/replay_command.h"
#include "psctl/traces/trace_arguments.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

using provisioner::ForecastScore;

constexpr size_t kIntervalsMax = 1'000'000;
constexpr size_t kForecastsMax = 2000;  // of a predictor; longer traces are taken in strides
constexpr int kHorizonMax = 1000;

struct PredictorScores {
  std::string name;
  std::vector<ForecastScore> horizons;
};

struct Comparison {
  size_t intervals = 0;
  double mean = 0;
  uint32_t lowest = 0;
  uint32_t highest = 0;
  std::vector<PredictorScores> predictors;
};

Status CheckForecast(const ForecastCommand& command) {
  if (!(command.interval_s >= 1 && command.interval_s <= 86'400)) {
    return Status::InvalidArgument("--interval wants a time from 1s to 24h, as in 60s");
  }
  if (!(command.band > 0 && command.band < 1)) {
    return Status::InvalidArgument("--band wants a share between 0 and 1, as in 0.8");
  }
  for (size_t i = 0; i < command.horizons.size(); ++i) {
    const int horizon = command.horizons[i];
    if (horizon < 1 || horizon > kHorizonMax || (i > 0 && horizon <= command.horizons[i - 1])) {
      return Status::InvalidArgument(fmt::format(
          "--horizon wants numbers of intervals that ascend from 1 to {}, as in --horizon 1,6,12; "
          "got {}",
          kHorizonMax,
          horizon));
    }
  }
  return Status::Ok();
}

Result<Comparison> Compare(const ForecastCommand& command) {
  PS_TRY(CheckForecast(command));
  PS_ASSIGN(const double unit_s, SecondsOfUnit(command.unit));
  PS_ASSIGN(const GapRule gaps, GapRuleOf(command.gaps));
  PS_ASSIGN(const std::string text, ReadFile(command.trace_path));
  PS_ASSIGN(const AvailabilityTrace trace, ParseTrace(text, command.trace_path, unit_s, gaps));
  PS_ASSIGN(const std::vector<uint32_t> counts, CountsOf(trace, command.interval_s));
  Comparison comparison;
  comparison.intervals = counts.size();
  comparison.mean = trace.end_s > 0 ? NodeSeconds(trace) / trace.end_s : counts.front();
  comparison.lowest = *std::ranges::min_element(counts);
  comparison.highest = *std::ranges::max_element(counts);
  provisioner::ScoreRequest request;
  request.horizons.assign(command.horizons.begin(), command.horizons.end());
  request.band = command.band;
  request.stride = counts.size() / kForecastsMax + 1;
  // Parcae's 8 and 32, of a trace whose most are 32.
  const auto highest = static_cast<int>(comparison.highest);
  const provisioner::ParcaeBounds bounds = {.low = highest / 4, .high = highest};
  for (const std::string_view name : provisioner::PredictorNames()) {
    const auto predictor = provisioner::MakePredictor(name, request.warm_up, bounds);
    Result<std::vector<ForecastScore>> scores =
        provisioner::ScorePredictor(predictor.get(), counts, request);
    if (!scores.ok()) {
      return Status::InvalidArgument(fmt::format(
          "{}: {}; a shorter --interval or --horizon would do",
          command.trace_path,
          scores.status().message()));
    }
    comparison.predictors.push_back({std::string(name), std::move(scores).value()});
  }
  return comparison;
}

/// " 21 (20 to 22) in 1, 21 (17 to 25) in 6".
std::string NextOf(const PredictorScores& predictor) {
  std::string text;
  for (const ForecastScore& score : predictor.horizons) {
    text += fmt::format("{} {:.0f}", text.empty() ? "" : ",", score.next);
    if (score.next_band) {
      text += fmt::format(" ({} to {})", score.next_band->low, score.next_band->high);
    }
    text += fmt::format(" in {}", score.horizon);
  }
  return text;
}

std::string RenderComparison(const ForecastCommand& command, const Comparison& comparison) {
  std::vector<run::Column> columns = {{"predictor", run::Align::kLeft}};
  for (const int horizon : command.horizons) {
    columns.push_back({fmt::format("in {}", horizon)});
  }
  columns.push_back({"band width"});
  columns.push_back({"in band, %"});
  run::Table table(std::move(columns));
  for (const PredictorScores& predictor : comparison.predictors) {
    std::vector<std::string> cells = {predictor.name};
    for (const ForecastScore& score : predictor.horizons) {
      cells.push_back(fmt::format("{:.2f}", score.error));
    }
    const ForecastScore& farthest = predictor.horizons.back();
    const bool has_band = farthest.bands > 0;
    cells.push_back(has_band ? fmt::format("{:.1f}", farthest.band_width) : "-");
    cells.push_back(has_band ? fmt::format("{:.0f}", 100 * farthest.band_coverage) : "-");
    table.AddRow(std::move(cells));
  }
  const size_t last = comparison.predictors.front().horizons.size() - 1;
  const auto best =
      std::ranges::min_element(comparison.predictors, {}, [last](const PredictorScores& predictor) {
        return predictor.horizons[last].error;
      });
  return fmt::format(
             "{}: {} intervals of {:g} s, {:.2f} machines in the mean, {} to {}\n",
             Printable(command.trace_path),
             comparison.intervals,
             command.interval_s,
             comparison.mean,
             comparison.lowest,
             comparison.highest) +
         table.Render() +
         fmt::format(
             "in N: mean error of the count N intervals ahead, machines; band: of {:.0f} %, at {}\n"
             "the best at {}: {}, which has next:{}\n",
             100 * command.band,
             command.horizons.back(),
             command.horizons.back(),
             best->name,
             NextOf(*best));
}

std::string JsonOf(const Comparison& comparison) {
  JsonWriter json;
  json.BeginObject();
  json.Field("intervals", comparison.intervals);
  json.Field("mean", comparison.mean);
  json.BeginList("predictors");
  for (const PredictorScores& predictor : comparison.predictors) {
    json.BeginObject();
    json.Field("name", predictor.name);
    json.BeginList("horizons");
    for (const ForecastScore& score : predictor.horizons) {
      json.BeginObject();
      json.Field("intervals", score.horizon);
      json.Field("error", score.error);
      json.Field("window_error", score.window_error);
      if (score.bands > 0) {
        json.Field("band_coverage", score.band_coverage);
        json.Field("band_width", score.band_width);
      }
      json.Field("forecasts", score.forecasts);
      json.Field("next", score.next);
      if (score.next_band) {
        json.Field("next_low", score.next_band->low);
        json.Field("next_high", score.next_band->high);
      }
      json.EndObject();
    }
    json.EndList();
    json.EndObject();
  }
  json.EndList();
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace

Result<std::vector<uint32_t>> CountsOf(const AvailabilityTrace& trace, double interval_s) {
  if (trace.end_s / interval_s > kIntervalsMax) {
    return Status::InvalidArgument(fmt::format(
        "the trace of {:.0f} h has more than {} intervals of {:g} s: give a longer --interval",
        trace.end_s / 3600,
        kIntervalsMax,
        interval_s));
  }
  std::vector<uint32_t> counts;
  size_t step = 0;
  const auto intervals = static_cast<size_t>(trace.end_s / interval_s) + 1;
  for (size_t i = 0; i < intervals; ++i) {
    const double begin_s = static_cast<double>(i) * interval_s;
    while (step + 1 < trace.steps.size() && trace.steps[step + 1].at_s <= begin_s) {
      ++step;
    }
    counts.push_back(trace.steps[step].nodes);
  }
  return counts;
}

namespace {

/// Compares the predictors of provisioner/strategies on a trace. Returns the exit code.
int RunForecast(const ForecastCommand& command, const run::Console& console) {
  const Result<Comparison> comparison = Compare(command);
  if (!comparison.ok()) {
    return run::Misuse(console, comparison.status());
  }
  console.out(command.is_json ? JsonOf(*comparison) : RenderComparison(command, *comparison));
  return run::kExitOk;
}

void AddArguments(ForecastCommand* command, Arguments* arguments) {
  AddTrace("TRACE", {&command->trace_path, &command->unit, &command->gaps}, arguments).Required();
  arguments->AddDuration("--interval", &command->interval_s, "From one count to the next; 60s");
  arguments->Add("--horizon", &command->horizons, "Intervals ahead, as in 1,6,12")
      .Separated()
      .Value("N,...");
  arguments->Add("--band", &command->band, "Share of counts within a band; 0.8");
  arguments->Add("--json", &command->is_json, "Print JSON");
}

int Run(const ForecastCommand& command, const Session& session) {
  return RunForecast(command, session.console);
}

}  // namespace

constinit const Command kForecast = {
    .path = "forecast",
    .group = Group::kMeasure,
    .help = "Compare predictors of availability on a trace",
    .examples = {{{"psctl forecast trace.csv", "how well machines to come can be told"}}},
    .declare = Declare<ForecastCommand, AddArguments, Run>};

}  // namespace ps::psctl
