#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/claims/parcae_data.h"
#include "provisioner/claims/parcae_pipelines.h"
#include "provisioner/strategies/forecast.h"

namespace ps::provisioner {

// Policies of pipelines on a trace, a minute each.

inline constexpr size_t kParcaeMinutesAhead = 12;
inline constexpr double kParcaeMinuteS = 60;

/// The plan that makes most samples/s of those that fit; no pipelines where none does.
ParcaePlan ParcaeFastestOf(const ParcaeModel& model, int machines);

/// Chooses the step of a minute. `seen`: counts of the minutes before.
using ParcaePolicy = std::function<ParcaeStep(
    const ParcaeCase& some,
    size_t minute,
    ParcaeCosts* costs,
    const ParcaeState& state,
    const std::vector<uint32_t>& seen)>;

struct ParcaeOutcome {
  double all() const { return std::accumulate(samples.begin(), samples.end(), 0.0); }

  std::vector<double> samples;  // of each minute
  size_t as_predicted = 0;      // minutes with the plan that was published of forecasts
  size_t as_truth = 0;          // and of true futures
};

/// `costs`: of the case's model; they may be shared, since what is drawn does not depend on the
/// order. `minutes`: the most that are run.
ParcaeOutcome RunParcaePolicy(
    const ParcaeCase& some,
    ParcaeCosts* costs,
    const ParcaePolicy& policy,
    size_t minutes = SIZE_MAX);

/// Samples of the best plan that fits each minute's machines, if changes cost nothing.
std::vector<double> ParcaeIdealMinutes(const ParcaeCase& some);
double ParcaeIdealSamples(const ParcaeCase& some);

/// Plans a minute ahead, by counts that do not know its event, and drops pipelines when it comes.
/// Null: as if nothing changed.
ParcaePolicy ParcaeAhead(std::shared_ptr<CountPredictor> predictor);

/// Sees the minute's event, then counts on a forecast, or on no change without one.
ParcaePolicy ParcaeSeeThenPlan(std::shared_ptr<CountPredictor> predictor);

/// The plans that were published, of true futures or of forecasts.
ParcaePolicy ParcaePublished(bool is_truth);

/// Knows the minutes to come.
ParcaePolicy ParcaeOracle(size_t minutes_ahead = kParcaeMinutesAhead);

// Names of ParcaePolicies() that claims speak of.
inline constexpr char kParcaeRestarts[] = "fastest plan, checkpoints";
inline constexpr char kParcaePublishedPlans[] = "published plans, forecasts";
inline constexpr char kParcaeForecasts[] = "ours, ARIMA";
inline constexpr char kParcaeFastest[] = "fastest plan of each minute";
inline constexpr char kParcaeHold[] = "ours, see the minute, hold 12";
inline constexpr char kParcaeTrueFutures[] = "ours, true futures";

/// All of them, in the order of docs/traces.md. Predictors remember, so each run has its own.
std::vector<std::pair<std::string, ParcaePolicy>> ParcaePolicies();

}  // namespace ps::provisioner
