#pragma once

#include <span>
#include <string>
#include <vector>

#include "ps/base/status.h"

namespace ps::provisioner {

/// Share of machines that were revoked within `hours` of their start.
struct LifetimePoint {
  double hours = 0;
  double revoked = 0;

  friend bool operator==(const LifetimePoint&, const LifetimePoint&) = default;
};

/// A machine that was seen for `hours`, and then revoked or let go.
struct ObservedLife {
  double hours = 0;
  bool is_revoked = false;
};

/// How long machines live, as they were seen to: an empirical distribution, since revocations crowd
/// in the first hours and no exponential law has that. Between points the share grows evenly; after
/// the last one the hazard of the last interval in which machines were revoked goes on.
class LifetimeLaw {
 public:
  /// Errors: kInvalidArgument (no point; hours that do not ascend from above 0; shares that fall or
  /// are not within 0 and 1; more than `kPointsMax` points).
  static Result<LifetimeLaw> FromPoints(std::vector<LifetimePoint> points);
  /// By Kaplan and Meier: machines that were let go count as long as they were seen. Errors:
  /// kInvalidArgument (none, a time that is not above 0, none revoked).
  static Result<LifetimeLaw> FromObserved(std::vector<ObservedLife> lives);

  /// Share that lives longer than `hours`.
  double SurvivalAt(double hours) const;
  /// Chance that a machine that is `age_hours` old is revoked within `hours` from now.
  double RevokedWithin(double age_hours, double hours) const;
  /// Hours that it will be up of the next `hours`, in the mean.
  double MeanUpHours(double age_hours, double hours) const;

  const std::vector<LifetimePoint>& points() const { return points_; }

  static constexpr size_t kPointsMax = 10'000;

 private:
  explicit LifetimeLaw(std::vector<LifetimePoint> points);

  std::vector<LifetimePoint> points_;  // with (0, 0) first
  double hazard_after_ = 0;            // an hour
};

/// CM-DARE's revocations of an accelerator (K80, P100, V100) on GCP, preemptible, within a day. An
/// empty region: all of them, by the hour. Null for others.
const LifetimeLaw* PublishedLifetimes(const std::string& device, const std::string& region);

/// "K80", "K80@us-east1", ... in order.
std::vector<std::string> PublishedLifetimeNames();

}  // namespace ps::provisioner
