#include "provisioner/profile/exchange_penalty.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ps/base/check.h"

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

/// The value at a number of local steps of what was measured at some: a power law between two.
/// Nothing beyond them.
std::optional<double> Between(const std::map<int, double>& known, int local_steps) {
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
  const auto& [less, value_less] = *std::prev(above);
  const double share = std::log(static_cast<double>(local_steps) / less) /
                       std::log(static_cast<double>(above->first) / less);
  return std::exp(std::log(value_less) + share * std::log(above->second / value_less));
}

/// Penalties of one pair of encodings by local steps.
std::map<int, double> Measured(
    const proto::JobProfile& profile, const proto::ExchangeScheme& like, std::string_view mode) {
  std::map<int, double> known;
  for (const proto::ExchangePenalty& penalty : profile.penalties) {
    const proto::ExchangeScheme scheme = profile.SchemeOf(penalty);
    if (penalty.mode == mode && scheme.push == like.push && scheme.pull == like.pull) {
      known[scheme.local_steps] = penalty.samples;
    }
  }
  return known;
}

}  // namespace

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

bool IsMeasured(
    const proto::JobProfile& profile, const proto::ExchangeScheme& scheme, std::string_view mode) {
  std::map<int, double> known = Measured(profile, scheme, mode);
  if (scheme.push == profile.push && scheme.pull == profile.pull) {
    known[profile.local_steps] = 1;
  }
  return Between(known, scheme.local_steps).has_value();
}

std::optional<double> PenaltyOf(
    const proto::JobProfile& profile, const proto::ExchangeScheme& scheme, std::string_view mode) {
  std::map<int, double> own = Measured(profile, profile.Scheme(), mode);
  own[profile.local_steps] = 1;
  if (scheme.push == profile.push && scheme.pull == profile.pull) {
    return Between(own, scheme.local_steps);
  }
  const std::map<int, double> measured = Measured(profile, scheme, mode);
  if (const auto exact = measured.find(scheme.local_steps); exact != measured.end()) {
    return exact->second;
  }
  std::map<int, double> factors;  // of the encodings alone
  for (const auto& [local_steps, samples] : measured) {
    if (const auto of_steps = Between(own, local_steps); of_steps) {
      factors[local_steps] = samples / *of_steps;
    }
  }
  const std::optional<double> of_steps = Between(own, scheme.local_steps);
  if (factors.empty() || !of_steps) {
    return std::nullopt;
  }
  // Beyond those that were measured the nearest one holds.
  const int nearest =
      std::clamp(scheme.local_steps, factors.begin()->first, factors.rbegin()->first);
  return *of_steps * *Between(factors, nearest);
}

}  // namespace ps::provisioner
