#include "provisioner/planner/exact/trait_bounds.h"

#include <algorithm>
#include <cmath>

#include "provisioner/planner/numbers.h"

namespace ps::provisioner {
namespace {

constexpr double kBatchSlack = 4e-9;  // of sums in another order, and of the rate needed
constexpr int kBatchSteps = 6;
constexpr int kTangents = 6;

}  // namespace

BatchBound::BatchBound(const std::vector<Slot>& slots, const RatioProblem& box)
    : sums_(box), values_(slots.size()) {
  rates_.reserve(slots.size());
  samples_.reserve(slots.size());
  for (const Slot& slot : slots) {
    rates_.push_back(slot.rate_max);
    samples_.push_back(slot.samples);
  }
}

double BatchBound::MostAt(double rate, double most) {
  if (!(rate > 0)) {
    return most;
  }
  // The bound is convex in a, and falls while the fleet that has the largest sum is too slow.
  double low = 0;
  double high = most;
  for (int i = 0; i < kBatchSteps && high > 0; ++i) {
    const double a = i == 0 ? 0 : (low + high) / 2;
    for (size_t k = 0; k < rates_.size(); ++k) {
      values_[k] = -rates_[k] * (samples_[k] + a);
    }
    most = std::min(most, -sums_.Of(values_) / rate * (1 + kBatchSlack) - a);
    (sums_.Again(rates_) < rate ? low : high) = a;
  }
  return most;
}

HeterogeneityBound::HeterogeneityBound(
    const std::vector<Slot>& slots, const RatioProblem& box, bool is_tight)
    : sums_(box), is_tight_(is_tight), workers_(box.total) {
  speeds_.reserve(slots.size());
  speeds_min_.reserve(slots.size());
  for (const Slot& slot : slots) {
    speeds_.push_back(slot.samples * slot.rate_max);
    speeds_min_.push_back(slot.samples * slot.rate_min);
    values_.push_back(-speeds_.back());
    if (slot.high > 0) {
      fastest_ = std::max(fastest_, speeds_.back());
    }
  }
  speed_min_ = sums_.Of(speeds_min_);
  speed_max_ = -sums_.Of(values_) * (1 + kSlack);
}

void HeterogeneityBound::MakeTangents(double mean) {
  for (int i = 0; i < kTangents; ++i) {
    const double t = mean + (fastest_ - mean) * i / kTangents;
    for (size_t k = 0; k < speeds_.size(); ++k) {
      values_[k] = speeds_min_[k] * speeds_min_[k] - 2 * t * speeds_[k];
    }
    tangents_.push_back({t, sums_.Of(values_)});
  }
}

double HeterogeneityBound::LeastSquare(double speed, const Tangent& tangent) const {
  // 1 + 2 (t - v) u + L u^2 for u = 1 / V.
  const double slope = 2 * (tangent.t - fastest_);
  const auto square = [&](double u) { return 1 + slope * u + tangent.least * u * u; };
  const double u_low = 1 / speed_max_;
  const double u_high = 1 / speed;
  double least = std::min(square(u_low), square(u_high));
  if (tangent.least > 0) {
    least = std::min(least, square(std::clamp(-slope / (2 * tangent.least), u_low, u_high)));
  }
  return least;
}

double HeterogeneityBound::LeastAt(double speed) {
  speed = std::min(std::max(speed, speed_min_), speed_max_);
  if (workers_ == 1 || !(speed > 0)) {
    return 0;
  }
  const double share = std::min(fastest_ / speed, 1.0);
  const double others_equal = (1 - share) * std::sqrt(workers_ / (workers_ - 1.0));
  double least_square = others_equal * others_equal;
  if (is_tight_ && tangents_.empty()) {
    MakeTangents(speed / workers_);
  }
  for (const Tangent& tangent : tangents_) {
    least_square = std::max(least_square, LeastSquare(speed, tangent));
  }
  return std::sqrt(least_square);
}

}  // namespace ps::provisioner
