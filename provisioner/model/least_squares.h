#pragma once

#include <functional>
#include <span>
#include <vector>

namespace ps::provisioner {

// Small minimisers for fits of a few to some dozen coefficients. Deterministic.

/// sign(r) s sqrt(2 (sqrt(1 + (r/s)^2) - 1)): its square is r^2 for small r and grows like 2 s |r|
/// for large ones, so that a single outlier can't dominate a fit. `limit` is s; 0: r itself.
double SoftResidual(double residual, double limit);

/// Writes as many residuals as `out` holds. Must be smooth where the minimum may lie.
using ResidualFunction =
    std::function<void(std::span<const double> parameters, std::span<double> out)>;

struct LeastSquares {
  std::vector<double> parameters;
  double cost = 0;  // half the sum of squares
};

/// Levenberg and Marquardt's method from `start`, with derivatives by central differences. Stops
/// when a step gains less than 1e-12 of the cost, or after `iterations_max`. Requires: residuals
/// are finite at `start`; where they are not, a step is refused.
LeastSquares MinimiseSquares(
    const ResidualFunction& residuals,
    size_t residual_count,
    std::vector<double> start,
    int iterations_max);

struct GridAxis {
  double low = 0;
  double high = 0;
};

struct GridMinimum {
  double first = 0;
  double second = 0;
  double cost = 0;
};

/// The smallest cost in a rectangle, by grids that close in on the best point: for costs of two
/// variables with kinks and plateaus, where derivatives lead astray.
GridMinimum MinimiseOnGrid(
    const std::function<double(double, double)>& cost, GridAxis first, GridAxis second);

}  // namespace ps::provisioner
