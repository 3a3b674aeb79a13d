#include "provisioner/strategies/look_ahead.h"

#include <algorithm>
#include <cmath>

namespace ps::provisioner {
namespace {

// A machine is taken if it is expected to add this share of what a lone worker makes.
constexpr double kWorthwhile = 0.05;
// A predictor's time grows with what it is asked for, and nobody knows more than that ahead.
constexpr size_t kForecastMax = 240;

/// Liveput of `machines` when `lost` of the `available` ones go, on average.
double RateOf(const LookAheadJob& job, uint32_t machines, uint32_t available, double lost) {
  const auto low = static_cast<uint32_t>(lost);
  const double share = lost - low;
  const double rate = LiveputOfWorkers(available, machines, low, job.samples_per_s);
  return share > 0 ? rate * (1 - share) +
                         share * LiveputOfWorkers(available, machines, low + 1, job.samples_per_s)
                   : rate;
}

}  // namespace

double LiveputOfWorkers(
    uint32_t machines, uint32_t taken, uint32_t lost, std::span<const double> samples_per_s) {
  // Weights of the hypergeometric law, each by the one before, in floating point all along.
  constexpr double kTooLarge = 1e200;
  const uint32_t fewest = taken + lost > machines ? taken + lost - machines : 0;
  double weight = 1;
  double sum = 0;
  double all = 0;
  for (uint32_t hit = fewest; hit <= std::min(lost, taken); ++hit) {
    sum += weight * samples_per_s[taken - hit];
    all += weight;
    weight *= static_cast<double>(lost - hit) * (taken - hit) /
              ((hit + 1.0) * (static_cast<double>(machines) - lost - taken + hit + 1));
    if (all > kTooLarge) {
      weight /= kTooLarge;
      sum /= kTooLarge;
      all /= kTooLarge;
    }
  }
  return sum / all;
}

size_t IntervalsAhead(const LookAheadJob& job) {
  return kLookAheadIntervals + static_cast<size_t>(std::ceil(job.start_s / job.interval_s));
}

std::vector<double> ForecastAhead(
    const LookAheadJob& job, CountPredictor* predictor, std::span<const uint32_t> history) {
  const size_t intervals = IntervalsAhead(job);
  std::vector<double> counts = predictor->Predict(history, std::min(intervals, kForecastMax));
  counts.resize(intervals, counts.back());
  return counts;
}

double ExpectSamples(const LookAheadJob& job, const LookAheadView& view, uint32_t wanted) {
  const uint32_t had = std::min(view.working, wanted);
  double samples = 0;
  double lost_before = -1;  // rates are of this loss
  double before = 0;
  double after = 0;
  for (size_t i = 0; i < view.counts.size(); ++i) {
    const double all = view.available;
    const double lost = all - std::clamp(view.counts[i], 0.0, all);
    if (lost != lost_before) {
      before = RateOf(job, had, view.available, lost);
      after = RateOf(job, wanted, view.available, lost);
      lost_before = lost;
    }
    const double begin_s = static_cast<double>(i) * job.interval_s;
    const double works =
        std::clamp((begin_s + job.interval_s - job.start_s) / job.interval_s, 0.0, 1.0);
    samples += job.interval_s * (before + works * (after - before));
  }
  return samples;
}

uint32_t ChooseWorkers(const LookAheadJob& job, const LookAheadView& view) {
  const double works_s =
      std::max(0.0, job.interval_s * static_cast<double>(view.counts.size()) - job.start_s);
  const double least = kWorthwhile * job.samples_per_s[1] * works_s;
  uint32_t wanted = 0;
  double samples = 0;
  while (wanted < std::min(view.available, job.workers_max())) {
    const double more = ExpectSamples(job, view, wanted + 1);
    if (more - samples <= least) {
      break;
    }
    samples = more;
    ++wanted;
  }
  return wanted;
}

}  // namespace ps::provisioner
