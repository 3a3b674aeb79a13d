#include "provisioner/strategies/parcae_predictor.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

constexpr double kStepFromFirstMax = 3;

/// Runs of up to three values between two equal ones are taken for noise.
void FlattenSpikes(std::vector<double>* values) {
  for (size_t width = 3; width > 0; --width) {
    for (size_t i = 0; i + width + 1 < values->size(); ++i) {
      const double level = (*values)[i];
      const auto begin = values->begin() + static_cast<std::ptrdiff_t>(i) + 1;
      const auto end = begin + static_cast<std::ptrdiff_t>(width);
      if (*end == level && std::find(begin, end, level) == end) {
        std::fill(begin, end, level);
      }
    }
  }
}

/// What was before the last turn tells nothing of what comes.
void FlattenBeforeTurn(std::vector<double>* values) {
  const auto [low, high] = std::ranges::minmax(*values);
  const double first = values->front();
  const double last = values->back();
  double level = 0;
  if (low < std::min(first, last)) {
    level = low;
  } else if (high > std::max(first, last)) {
    level = high;
  } else {
    return;
  }
  const auto turn = std::find(values->rbegin(), values->rend(), level).base() - 1;
  std::fill(values->begin(), turn, level);
}

double VarianceOf(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double sum = 0;
  for (const double value : values) {
    sum += (value - mean) * (value - mean);
  }
  return sum / count;
}

/// A Poisson variate, by products of uniform ones (Knuth): means are small here.
int DrawPoisson(double mean, Random* random) {
  const double limit = std::exp(-mean);
  int count = -1;
  for (double product = 1; product > limit || count < 0; ++count) {
    product *= random->Unit();
    if (product <= limit) {
      return count + 1;
    }
  }
  return count;
}

}  // namespace

std::vector<double> ParcaePredictor::Predict(std::span<const uint32_t> history, size_t horizon) {
  const size_t from = history.size() > look_back_ ? history.size() - look_back_ : 0;
  if (history.size() <= look_back_ || look_back_ < 3) {
    return std::vector<double>(horizon, history.back());
  }
  std::vector<double> past(history.begin() + static_cast<std::ptrdiff_t>(from), history.end());
  std::vector<double> removals;
  for (size_t i = from; i < history.size(); ++i) {
    const uint32_t before = i == 0 ? history[i] : history[i - 1];
    removals.push_back(before > history[i] ? before - history[i] : 0);
  }
  FlattenSpikes(&past);
  FlattenBeforeTurn(&past);
  NoteSteepness(past);
  const bool is_flat = VarianceOf(past) == 0;
  std::vector<double> counts(horizon, past.back());
  if (!is_flat) {
    counts = ForecastArima(past, horizon);
  }
  std::ranges::transform(
      counts, counts.begin(), [](double count) { return std::nearbyint(count); });
  const double first = counts.front();
  for (size_t k = 1; k < horizon; ++k) {
    counts[k] = std::clamp(counts[k], first - kStepFromFirstMax, first + kStepFromFirstMax);
  }
  for (double& count : counts) {
    count = std::clamp<double>(count, bounds_.low, bounds_.high);
  }
  double removal_mean = 0;
  if (!is_flat && VarianceOf(counts) == 0) {
    const double variance = VarianceOf(removals);
    const double mean = std::accumulate(removals.begin(), removals.end(), 0.0) /
                        static_cast<double>(removals.size());
    removal_mean = std::min({std::sqrt(variance), variance, mean});
  }
  return Walk(past.back(), counts, removal_mean, history.size());
}

void ParcaePredictor::NoteSteepness(const std::vector<double>& past) {
  const auto penalty = [](double change, double before) {
    return change >= 10 ? 0.5 : (change >= 5 ? 0.75 : before);
  };
  if (std::ranges::is_sorted(past)) {
    in_penalty_ = penalty(past.back() - past.front(), in_penalty_);
  }
  if (std::ranges::is_sorted(past, std::ranges::greater())) {
    out_penalty_ = penalty(past.front() - past.back(), out_penalty_);
  }
}

std::vector<double> ParcaePredictor::Walk(
    double last, const std::vector<double>& counts, double removal_mean, uint64_t seed) const {
  Random random(seed);
  std::vector<double> walked;
  double wanted = last;
  double now = last;
  for (const double count : counts) {
    const double in = std::max(0.0, count - wanted);
    double out = std::max(0.0, wanted - count);
    out += removal_mean > 0 ? DrawPoisson(removal_mean, &random) : 0;
    wanted = count;
    now = std::nearbyint(now + in * in_penalty_ - out * out_penalty_);
    walked.push_back(now);
  }
  return walked;
}

}  // namespace ps::provisioner
