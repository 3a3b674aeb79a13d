#include "provisioner/unseen/transfer_law.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

namespace ps::provisioner {
namespace {

constexpr double kNearest = 0.5;  // distance of a device to itself in another host
// Between processors and other devices, whose figures are further apart than any that were learned
// from: assumed, as twice the errors of the farthest two.
constexpr double kOtherKind = 2;
constexpr double kFarthest = 2;
constexpr int kShareSteps = 20;
constexpr int kSlopeSteps = 40;
constexpr double kSlopeMin = 0.5;
constexpr double kSlopeMax = 1.5;

struct Pair {
  DeviceFigures from;
  DeviceFigures to;
  double log_ratio = 0;
  double weight = 1;
};

double LogRatio(const DeviceFigures& from, const DeviceFigures& to, double flops_share) {
  return flops_share * std::log(to.tflops / from.tflops) +
         (1 - flops_share) * std::log(to.gbyte_per_s / from.gbyte_per_s);
}

double Distance(const DeviceFigures& from, const DeviceFigures& to) {
  const double apart =
      std::hypot(std::log(to.tflops / from.tflops), std::log(to.gbyte_per_s / from.gbyte_per_s));
  return from.is_processor == to.is_processor
             ? kNearest + apart
             : kOtherKind * (kNearest + std::min(apart, kFarthest));
}

}  // namespace

Result<TransferLaw> TransferLaw::Learn(std::span<const MeasuredJob> jobs) {
  std::vector<Pair> pairs;
  std::map<std::string, int> pairs_of;
  std::vector<const std::string*> models;
  for (const MeasuredJob& job : jobs) {
    for (const DeviceTime& from : job.times) {
      for (const DeviceTime& to : job.times) {
        if (!(from.seconds > 0 && std::isfinite(from.seconds))) {
          return Status::InvalidArgument(
              fmt::format("a step of {} took {} s; times are above 0", job.model, from.seconds));
        }
        if (&from != &to) {
          pairs.push_back({from.device, to.device, std::log(from.seconds / to.seconds)});
          models.push_back(&job.model);
          ++pairs_of[job.model];
        }
      }
    }
  }
  if (pairs.size() < kPairsMin) {
    return Status::InvalidArgument(fmt::format(
        "{} pairs of devices with a job measured on both; at least {} are needed",
        pairs.size(),
        kPairsMin));
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].weight = 1 / std::sqrt(pairs_of[*models[i]]);
  }
  TransferLaw law;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= kShareSteps; ++i) {
    const double share = static_cast<double>(i) / kShareSteps;
    for (int k = 0; k <= kSlopeSteps; ++k) {
      const double slope = kSlopeMin + (kSlopeMax - kSlopeMin) * k / kSlopeSteps;
      double cost = 0;
      for (const Pair& pair : pairs) {
        cost +=
            pair.weight * std::abs(pair.log_ratio - slope * LogRatio(pair.from, pair.to, share));
      }
      if (cost < least) {
        least = cost;
        law.slope_ = slope;
        law.flops_share_ = share;
      }
    }
  }
  for (const Pair& pair : pairs) {
    law.errors_.push_back(
        std::abs(pair.log_ratio - law.LogSpeedup(pair.from, pair.to)) /
        Distance(pair.from, pair.to));
  }
  std::ranges::sort(law.errors_);
  return law;
}

double TransferLaw::LogSpeedup(const DeviceFigures& from, const DeviceFigures& to) const {
  return slope_ * LogRatio(from, to, flops_share_);
}

double TransferLaw::LogReach(
    const DeviceFigures& from, const DeviceFigures& to, double inside) const {
  const auto count = static_cast<double>(errors_.size());
  const double place = std::clamp(std::ceil(inside * (count + 1)) - 1, 0.0, count - 1);
  return errors_[static_cast<size_t>(place)] * Distance(from, to);
}

}  // namespace ps::provisioner
