#include "provisioner/heterogeneity_bound.h"

#include <algorithm>
#include <cmath>

namespace ps::provisioner {
namespace {

constexpr double kSlack = 1e-9;
constexpr int kMultipliersTried = 6;

}  // namespace

HeterogeneityBound::HeterogeneityBound(
    const std::vector<Slot>& slots, const RatioProblem& box, bool is_exact)
    : box_(box), is_exact_(is_exact), workers_(box.total) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    speeds_.push_back(slot.samples * slot.rate_max);
    if (slot.high > 0) {
      fastest_ = std::max(fastest_, speeds_.back());
    }
    box_.terms[i].weight = -slot.samples * slot.rate_min;
  }
  speed_min_ = -LargestSum(box_, &RatioTerm::weight);
  for (size_t i = 0; i < slots.size(); ++i) {
    box_.terms[i].weight = speeds_[i];
  }
  speed_max_ = LargestSum(box_, &RatioTerm::weight) * (1 + kSlack);
}

double HeterogeneityBound::LeastSquare(double speed, double t) const {
  RatioProblem box = box_;
  for (size_t i = 0; i < speeds_.size(); ++i) {
    box.terms[i].weight = -(speeds_[i] * speeds_[i] - 2 * t * speeds_[i]);
  }
  const double l = -LargestSum(box, &RatioTerm::weight);
  // 1 + 2 (t - v) u + L u^2 for u = 1 / V.
  const double slope = 2 * (t - fastest_);
  const auto square = [&](double u) { return 1 + slope * u + l * u * u; };
  const double u_low = 1 / speed_max_;
  const double u_high = 1 / speed;
  double least = std::min(square(u_low), square(u_high));
  if (l > 0) {
    least = std::min(least, square(std::clamp(-slope / (2 * l), u_low, u_high)));
  }
  return least;
}

double HeterogeneityBound::LeastAt(double speed) const {
  speed = std::min(std::max(speed, speed_min_), speed_max_);
  if (workers_ == 1 || !(speed > 0)) {
    return 0;
  }
  const double share = std::min(fastest_ / speed, 1.0);
  const double others_equal = (1 - share) * std::sqrt(workers_ / (workers_ - 1.0));
  if (!is_exact_) {
    return others_equal;
  }
  double least_square = others_equal * others_equal;
  const double mean = speed / workers_;
  for (int i = 0; i < kMultipliersTried; ++i) {
    const double t = mean + (fastest_ - mean) * i / kMultipliersTried;
    least_square = std::max(least_square, LeastSquare(speed, t));
  }
  return std::sqrt(least_square);
}

}  // namespace ps::provisioner
