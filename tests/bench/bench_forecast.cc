// How many counts the bands of `psctl forecast` hold, by trace, predictor and intervals ahead, and
// how wide they are. Needs no quiet machine: it measures no time. Run it in the root of the source
// tree. Fails where a band holds over 3 points less than it promises, or a count narrower over 3
// points more.
//     bench_forecast [UNIT=FILE...]     UNIT: s, ms or h, for traces beside those of tests/data

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "provisioner/strategies/forecast.h"
#include "ps/base/file.h"
#include "psctl/traces/forecast_command.h"
#include "psctl/traces/replay_trace.h"
#include "tests/bench/harness.h"
#include "tests/bench/trace_files.h"

namespace ps::bench {
namespace {

constexpr double kIntervalsS[] = {60, 600, 3600};
constexpr size_t kForecastsMax = 2000;
constexpr double kMargin = 0.03;
constexpr size_t kTellingForecasts = 150;  // fewer say nothing of 3 points

bool IsOff(const provisioner::ForecastScore& score, double band) {
  if (score.forecasts < kTellingForecasts) {
    return false;
  }
  const double narrower = std::max(score.coverage_without_low, score.coverage_without_high);
  return score.band_coverage < band - kMargin || narrower > band + kMargin;
}

/// Returns how many bands are off.
Result<int> AddRows(const TraceFile& file, bool is_tiny, Table* table) {
  PS_ASSIGN(const std::string text, ReadFile(file.name));
  PS_ASSIGN(
      const psctl::AvailabilityTrace trace,
      psctl::ParseTrace(text, file.name, file.unit_s, psctl::GapRule::kHold));
  int off = 0;
  for (const double interval_s : kIntervalsS) {
    PS_ASSIGN(const std::vector<uint32_t> counts, psctl::CountsOf(trace, interval_s));
    const auto highest = static_cast<int>(*std::ranges::max_element(counts));
    for (const std::string_view name : provisioner::PredictorNames()) {
      for (const double band : {0.8, 0.9}) {
        const provisioner::ScoreRequest request = {
            .horizons = {1, 6, 12},
            .band = band,
            .stride = counts.size() / (is_tiny ? 50 : kForecastsMax) + 1};
        const auto predictor =
            provisioner::MakePredictor(name, 12, {.low = highest / 4, .high = highest});
        const auto scores = provisioner::ScorePredictor(predictor.get(), counts, request);
        if (!scores.ok() || scores->back().bands == 0) {
          continue;  // the trace is too short for this interval
        }
        for (const provisioner::ForecastScore& score : *scores) {
          const bool is_off = !is_tiny && IsOff(score, band);
          off += is_off ? 1 : 0;
          table->Add(
              {file.name.substr(file.name.rfind('/') + 1),
               Fixed(interval_s, 0),
               std::string(name),
               std::to_string(score.horizon),
               Fixed(100 * band, 0),
               Fixed(100 * score.band_coverage, 1),
               Fixed(score.band_width, 2),
               Fixed(100 * std::max(score.coverage_without_low, score.coverage_without_high), 1),
               std::to_string(score.forecasts),
               is_off ? "OFF" : ""});
        }
      }
    }
  }
  return off;
}

int Run(int argc, char** argv) {
  std::vector<TraceFile> files = TakeTraces(&argc, argv);
  files.push_back({"tests/data/bamboo/a100_us-east1-b_whole.txt", 1});
  const BenchArguments arguments = ReadBenchArguments(argc, argv);
  Table table(
      {"trace",
       "interval, s",
       "predictor",
       "ahead",
       "band, %",
       "held, %",
       "width",
       "a count less, %",
       "forecasts",
       ""});
  int off = 0;
  for (const TraceFile& file : files) {
    const Result<int> added = AddRows(file, arguments.is_tiny, &table);
    if (!added.ok()) {
      std::fprintf(stderr, "%s\n", added.status().ToString().c_str());
      return 1;
    }
    off += *added;
  }
  table.Print();
  return off == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  return ps::bench::Run(argc, argv);
}
