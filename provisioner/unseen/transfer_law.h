#pragma once

#include <span>
#include <vector>

#include "provisioner/unseen/measured_jobs.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// How many times faster a job is on another device, from what makers say of both and from jobs
/// that were measured on several:
///
///   log(t_from / t_to) = slope (share log(flops_to / flops_from) + (1 - share) log(memory ...))
///
/// `slope` and `share` are those with the least sum of absolute errors; jobs of one model count as
/// the root of their number. How far off it may be is the quantile of the errors of the measured
/// pairs, each over its own distance 0.5 + |log ratios of both figures|: the further apart two
/// devices are, the less one tells of the other (split conformal prediction; leave one model out:
/// TransferLawTest). Nothing was measured between processors and other devices, which is assumed to
/// be off by twice as much as the farthest two.
class TransferLaw {
 public:
  /// Errors: kInvalidArgument, fewer than kPairsMin pairs of devices, or a time that is not above
  /// 0.
  static Result<TransferLaw> Learn(std::span<const MeasuredJob> jobs);

  /// log(seconds on `from` / seconds on `to`).
  double LogSpeedup(const DeviceFigures& from, const DeviceFigures& to) const;

  /// What the above is off by at most, with probability `inside`. Requires: 0 <= inside < 1.
  double LogReach(const DeviceFigures& from, const DeviceFigures& to, double inside) const;

  double slope() const { return slope_; }

  double flops_share() const { return flops_share_; }

  size_t pairs() const { return errors_.size(); }

  static constexpr size_t kPairsMin = 20;

 private:
  TransferLaw() = default;

  double slope_ = 1;
  double flops_share_ = 0.5;
  std::vector<double> errors_;  // over their distances, ascending
};

}  // namespace ps::provisioner
