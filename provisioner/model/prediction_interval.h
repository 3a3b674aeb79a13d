#pragma once

#include "ps/proto/files/plan.h"

namespace ps::provisioner {

/// No limit holds with more: as many of the errors that were measured tell nothing beyond.
inline constexpr double kConfidenceMax = 0.999;

// From a predicted value and the residual of its model to an interval. A residual is a typical
// relative error; errors count as logarithms, since a speed is never negative and a factor of 1.1
// either way is equally likely.

/// How many residuals the logarithm of a predicted value's error stays below with that probability.
/// Antisymmetric around 0.5. These are the errors of 530 predictions of measured fleets, each over
/// the residual that was stated for it (split conformal prediction): their tails are heavier than
/// those of a normal distribution. Probabilities that so few can't tell have the largest error of
/// all. Requires: 0 < probability < 1.
double ErrorQuantile(double probability);
/// The probability with which it stays below so many residuals: the inverse, as far as the errors
/// can tell.
double ErrorProbability(double residuals);

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
