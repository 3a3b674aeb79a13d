#pragma once

#include "ps/proto/files/plan.h"

namespace ps::provisioner {

// From a predicted value and the standard deviation of its relative error to an interval. Errors
// are taken as log-normal: a speed is never negative, and a factor of 1.1 either way is equally
// likely.

/// The z with P(Z <= z) = probability for a standard normal Z, to 1e-12. Requires: 0 < probability
/// < 1.
double NormalQuantile(double probability);

/// How large a fleet is, as far as its speed has to be extrapolated.
struct FleetSize {
  int workers = 0;
  int server_hosts = 0;
};

/// What the residual of a speed model becomes for a fleet of that size, when fleets of up to
/// `measured` were measured. Beyond them it grows by 1.5 times the logarithm of the ratio of the
/// workers, and by 4.5 times that of the server hosts. 0 measured: what the residual is of is not
/// known, it stays. See docs/measurements/provisioner.md.
double SpeedResidualAt(double residual, const FleetSize& size, const FleetSize& measured);

/// The residual of a product or quotient of two values whose errors are independent.
double CombinedResidual(double first, double second);

/// The interval that holds the value with probability `confidence`, as much outside below as above.
/// Requires: value >= 0, residual >= 0, 0 <= confidence < 1.
proto::Estimate Interval(double value, double residual, double confidence);

/// What the value stays below with probability `confidence`; 0.5 is the value itself. For goals:
/// "done within 40 minutes at 90 %". Infinity stays infinity.
double UpperAt(double value, double residual, double confidence);

}  // namespace ps::provisioner
