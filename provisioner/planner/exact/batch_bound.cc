#include "provisioner/planner/exact/batch_bound.h"

#include <algorithm>

namespace ps::provisioner {
namespace {

constexpr double kSlack = 4e-9;  // of sums in another order, and of the rate needed
constexpr int kSteps = 6;

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
  for (int i = 0; i < kSteps && high > 0; ++i) {
    const double a = i == 0 ? 0 : (low + high) / 2;
    for (size_t k = 0; k < rates_.size(); ++k) {
      values_[k] = -rates_[k] * (samples_[k] + a);
    }
    most = std::min(most, -sums_.Of(values_) / rate * (1 + kSlack) - a);
    (sums_.Again(rates_) < rate ? low : high) = a;
  }
  return most;
}

}  // namespace ps::provisioner
