#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "provisioner/strategies/forecast.h"

namespace ps::provisioner {

// Parcae's plan of the next interval, of a parameter server: its workers are each whole alone, so
// that a plan is a number of them. It is the number whose liveput over the forecast intervals, with
// the time that machines need to start, grows as long as one more is worth taking.

// In which a machine that is asked for now works, as far as a plan looks; as Parcae's.
inline constexpr size_t kLookAheadIntervals = 12;

struct LookAheadJob {
  std::span<const double> samples_per_s;  // of 0, 1, 2, ... workers together; never falls
  double start_s = 0;                     // from asking for a machine until its worker takes part
  double interval_s = 60;

  uint32_t workers_max() const { return static_cast<uint32_t>(samples_per_s.size() - 1); }
};

struct LookAheadView {
  uint32_t available = 0;          // machines that can be had now
  uint32_t working = 0;            // of them, that work for the job
  std::span<const double> counts;  // that can be had in each of the next intervals, as forecast
};

/// Intervals that a plan looks at: those in which a machine asked for now starts, and
/// kLookAheadIntervals in which it works.
size_t IntervalsAhead(const LookAheadJob& job);

/// The counts of as many intervals. No predictor is asked for more than a few hundred; then its
/// last count stays. Requires: `history` is not empty.
std::vector<double> ForecastAhead(
    const LookAheadJob& job, CountPredictor* predictor, std::span<const uint32_t> history);

/// Liveput: the mean of what is left, over all equally likely choices of the machines that go, when
/// `taken` of `machines` work for the job and `lost` of `machines` go. `samples_per_s`: by the
/// number of workers that are left. Requires: `taken` and `lost` are at most `machines`,
/// `samples_per_s` has `taken` + 1 values. Duan et al., "Parcae" (NSDI 2024), definition 1, for
/// workers that are each whole alone.
double LiveputOfWorkers(
    uint32_t machines, uint32_t taken, uint32_t lost, std::span<const double> samples_per_s);

/// Samples over the forecast intervals with `wanted` machines from now on: of those that the
/// forecast says will go, the job loses its share, whichever they are. Requires: `wanted` is at
/// most `view.available` and `job.workers_max()`.
double ExpectSamples(const LookAheadJob& job, const LookAheadView& view, uint32_t wanted);

/// As many as each add more than a twentieth of what a lone worker makes in the time that the
/// forecast leaves after its start.
uint32_t ChooseWorkers(const LookAheadJob& job, const LookAheadView& view);

}  // namespace ps::provisioner
