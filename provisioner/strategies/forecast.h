#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "provisioner/strategies/forecast_band.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// Forecasts how many machines can be had in the next intervals from the counts so far.
class CountPredictor {
 public:
  virtual ~CountPredictor() = default;

  virtual std::string_view name() const = 0;

  /// Counts that it needs to tell more than that the last one stays.
  virtual size_t history_min() const { return 1; }

  /// `horizon` counts from the next interval on. Requires: `history` is not empty. Deterministic.
  virtual std::vector<double> Predict(std::span<const uint32_t> history, size_t horizon) = 0;
};

/// ARIMA(1,1,0) with a constant, by exact maximum likelihood: the next `horizon` values, not
/// rounded. Requires: at least 3 values.
std::vector<double> ForecastArima(std::span<const double> values, size_t horizon);

/// As Parcae (Duan et al., NSDI 2024) published it: flattened spikes and turning points, ARIMA over
/// as many values as it forecasts, at most 3 from the first forecast value, penalties for steep
/// windows that stay for good. Its random removals are drawn from a fixed seed here.
struct ParcaeBounds {
  int low = 8;
  int high = 32;
};

/// How a predictor is made: "current" (the count stays), "parcae-arima", "arima" (without Parcae's
/// rules), "survival" (machines by age as the trace's machines lived, and as many new ones as came
/// of late), "quantile" (the median change that followed such a count). Null for other names.
/// `history_intervals`: what Parcae's looks back; `bounds`: what it never leaves. No forecast of
/// any of them is below 0, or above both `bounds.high` and the most of the history.
std::unique_ptr<CountPredictor> MakePredictor(
    std::string_view name, size_t history_intervals, ParcaeBounds bounds);
std::vector<std::string_view> PredictorNames();

/// How a predictor did over a trace.
struct ForecastScore {
  size_t horizon = 0;        // intervals ahead
  double error = 0;          // mean |forecast - count| at the horizon
  double window_error = 0;   // the same, mean over all intervals up to the horizon
  double band_coverage = 0;  // share of counts within the band
  double band_width = 0;     // mean, machines
  // Likewise of bands without their lowest, or highest, count: no band is narrower by less.
  double coverage_without_low = 0;
  double coverage_without_high = 0;
  size_t forecasts = 0;
  size_t bands = 0;  // of those that had one: not the first ones; 0: no share is known
  double next = 0;   // forecast from the trace's end
  std::optional<CountBand> next_band;  // none: too few forecasts were over
};

struct ScoreRequest {
  std::vector<size_t> horizons;  // ascending, from 1 on
  double band = 0.8;             // share of counts that the band is to hold
  size_t warm_up = 12;           // intervals before the first forecast
  size_t stride = 1;             // intervals from one forecast to the next
};

/// Forecasts at every interval from the counts until then, and compares. Bands are ForecastBand's,
/// made of the errors of earlier forecasts whose interval is over. The most of `counts` is taken
/// for the size of the market, as if it were known beforehand. Errors: kInvalidArgument (no
/// horizons, a trace too short for them).
Result<std::vector<ForecastScore>> ScorePredictor(
    CountPredictor* predictor, std::span<const uint32_t> counts, const ScoreRequest& request);

}  // namespace ps::provisioner
