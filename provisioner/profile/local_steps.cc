#include "provisioner/profile/local_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ps/base/check.h"
#include "ps/proto/limits.h"

namespace ps::provisioner {
namespace {

/// A curve with fewer points does not tell where it is.
constexpr size_t kCurvePointsLeast = 5;
constexpr int kLevels = 8;  // losses at which curves are compared

/// Samples at which the curve is first down to `loss`, between two points by a straight line.
std::optional<double> FirstAt(std::span<const LossAt> curve, double loss) {
  for (size_t i = 0; i < curve.size(); ++i) {
    if (curve[i].loss > loss) {
      continue;
    }
    if (i == 0) {
      return curve[i].samples;
    }
    const LossAt& before = curve[i - 1];
    const double share = (before.loss - loss) / (before.loss - curve[i].loss);
    return before.samples + share * (curve[i].samples - before.samples);
  }
  return std::nullopt;
}

double Lowest(std::span<const LossAt> curve) {
  return std::ranges::min(curve, {}, &LossAt::loss).loss;
}

}  // namespace

double MinibatchesCounted(const proto::JobStatus& status, uint32_t local_steps) {
  if (local_steps <= 1) {
    return static_cast<double>(status.steps_counted);
  }
  double samples = 0;
  double minibatches = 0;
  for (const proto::WorkerRow& row : status.workers) {
    const auto counted = static_cast<double>(row.samples_counted);
    samples += counted;
    minibatches += counted / std::max(row.minibatch, 1U);
  }
  if (samples <= 0 || status.samples_counted == 0) {
    return static_cast<double>(status.steps_counted) * local_steps;
  }
  return static_cast<double>(status.samples_counted) * minibatches / samples;
}

double MinibatchesOf(const proto::WorkerStats& stats, uint32_t minibatch, uint32_t local_steps) {
  return local_steps <= 1 ? static_cast<double>(stats.steps)
                          : static_cast<double>(stats.samples) / std::max(minibatch, 1U);
}

Result<proto::JobConfig> WithLocalSteps(proto::JobConfig config, uint32_t local_steps) {
  PS_CHECK(local_steps >= 1);
  uint64_t minibatch = config.train.minibatch;
  for (const proto::WorkerGroup& group : config.workers) {
    minibatch = std::max<uint64_t>(minibatch, group.minibatch);
  }
  if (minibatch * local_steps > proto::kStepSamplesMax) {
    return Status::InvalidArgument(fmt::format(
        "{} local steps of {} samples are more than {} samples a step; allowed: up to {}",
        local_steps,
        minibatch,
        proto::kStepSamplesMax,
        proto::kStepSamplesMax / minibatch));
  }
  config.train.local_steps = local_steps;
  if (local_steps == 1) {
    config.train.local_steps_by_speed = false;
    config.outer = {};
  } else {
    config.train.overlap = false;
  }
  return config;
}

Result<double> SamplesRatio(std::span<const LossAt> reference, std::span<const LossAt> curve) {
  if (reference.size() < kCurvePointsLeast || curve.size() < kCurvePointsLeast) {
    return Status::InvalidArgument(
        fmt::format("a loss curve has fewer than {} points", kCurvePointsLeast));
  }
  // Losses that both are down to; the lower half of them, away from how training begins.
  const double low = std::max(Lowest(reference), Lowest(curve));
  const double high = std::min(reference.front().loss, curve.front().loss);
  if (!(low > 0 && low < high)) {
    return Status::InvalidArgument("no loss is on the way down of both curves");
  }
  double sum = 0;
  for (int i = 0; i < kLevels; ++i) {
    const double loss = low * std::pow(high / low, 0.5 * i / kLevels);
    const auto of_reference = FirstAt(reference, loss);
    const auto of_curve = FirstAt(curve, loss);
    PS_CHECK(of_reference && of_curve) << "both are down to it";
    sum += std::log(*of_curve / *of_reference);
  }
  return std::exp(sum / kLevels);
}

std::optional<double> PenaltyOf(
    const proto::JobProfile& profile, int local_steps, std::string_view mode) {
  std::map<int, double> known;
  for (const proto::LocalStepsPenalty& penalty : profile.penalties) {
    if (penalty.mode == mode) {
      known[penalty.local_steps] = penalty.samples;
    }
  }
  known[profile.local_steps] = 1;
  const auto above = known.lower_bound(local_steps);
  if (above == known.end()) {
    return std::nullopt;
  }
  if (above->first == local_steps) {
    return above->second;
  }
  if (above == known.begin()) {
    return std::nullopt;
  }
  const auto& [less, samples_less] = *std::prev(above);
  const double share = std::log(static_cast<double>(local_steps) / less) /
                       std::log(static_cast<double>(above->first) / less);
  return std::exp(std::log(samples_less) + share * std::log(above->second / samples_less));
}

}  // namespace ps::provisioner
