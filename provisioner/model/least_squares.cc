#include "provisioner/model/least_squares.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

using Vector = std::vector<double>;

double HalfSquares(std::span<const double> residuals) {
  double sum = 0;
  for (const double r : residuals) {
    sum += r * r;
  }
  return std::isfinite(sum) ? sum / 2 : std::numeric_limits<double>::infinity();
}

/// Row-major, residuals by parameters.
Vector Jacobian(const ResidualFunction& residuals, size_t residual_count, const Vector& at) {
  Vector jacobian(residual_count * at.size());
  Vector moved = at;
  Vector above(residual_count);
  Vector below(residual_count);
  for (size_t p = 0; p < at.size(); ++p) {
    const double h = 1e-6 * std::max(std::abs(at[p]), 1e-2);
    moved[p] = at[p] + h;
    residuals(moved, above);
    moved[p] = at[p] - h;
    residuals(moved, below);
    moved[p] = at[p];
    for (size_t r = 0; r < residual_count; ++r) {
      const double slope = (above[r] - below[r]) / (2 * h);
      jacobian[r * at.size() + p] = std::isfinite(slope) ? slope : 0;
    }
  }
  return jacobian;
}

/// Solves the symmetric system in place by Cholesky's method. False: not positive definite.
bool SolveSymmetric(Vector* matrix, Vector* right) {
  const size_t n = right->size();
  Vector& a = *matrix;
  Vector& b = *right;
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = j; i < n; ++i) {
      double sum = a[i * n + j];
      for (size_t k = 0; k < j; ++k) {
        sum -= a[i * n + k] * a[j * n + k];
      }
      if (i == j) {
        if (!(sum > 0)) {
          return false;
        }
        a[j * n + j] = std::sqrt(sum);
      } else {
        a[i * n + j] = sum / a[j * n + j];
      }
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) {
      b[i] -= a[i * n + k] * b[k];
    }
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) {
      b[i] -= a[k * n + i] * b[k];
    }
    b[i] /= a[i * n + i];
  }
  return true;
}

/// The step that the damped normal equations ask for; empty when they can't be solved.
Vector DampedStep(const Vector& jacobian, const Vector& residuals, size_t size, double damping) {
  Vector normal(size * size);
  Vector gradient(size);
  for (size_t r = 0; r < residuals.size(); ++r) {
    const double* row = &jacobian[r * size];
    for (size_t i = 0; i < size; ++i) {
      gradient[i] -= row[i] * residuals[r];
      for (size_t j = 0; j <= i; ++j) {
        normal[i * size + j] += row[i] * row[j];
      }
    }
  }
  for (size_t i = 0; i < size; ++i) {
    normal[i * size + i] += damping * std::max(normal[i * size + i], 1e-12);
  }
  return SolveSymmetric(&normal, &gradient) ? gradient : Vector();
}

}  // namespace

double SoftResidual(double residual, double limit) {
  if (limit <= 0) {
    return residual;
  }
  const double ratio = residual / limit;
  return std::copysign(limit * std::sqrt(2 * (std::sqrt(1 + ratio * ratio) - 1)), residual);
}

LeastSquares MinimiseSquares(
    const ResidualFunction& residuals,
    size_t residual_count,
    std::vector<double> start,
    int iterations_max) {
  Vector current(residual_count);
  Vector tried(residual_count);
  LeastSquares best{.parameters = std::move(start)};
  residuals(best.parameters, current);
  best.cost = HalfSquares(current);
  PS_CHECK(std::isfinite(best.cost)) << "residuals at the start are not finite";
  double damping = 1e-3;
  for (int i = 0; i < iterations_max && damping < 1e12; ++i) {
    const Vector jacobian = Jacobian(residuals, residual_count, best.parameters);
    bool is_better = false;
    bool is_done = false;
    for (; damping < 1e12 && !is_better; damping *= is_better ? 0.1 : 10) {
      const Vector step = DampedStep(jacobian, current, best.parameters.size(), damping);
      if (step.empty()) {
        continue;
      }
      Vector parameters = best.parameters;
      for (size_t p = 0; p < parameters.size(); ++p) {
        parameters[p] += step[p];
      }
      residuals(parameters, tried);
      const double cost = HalfSquares(tried);
      if (cost < best.cost) {
        is_better = true;
        is_done = best.cost - cost < 1e-12 * best.cost;
        best = {.parameters = std::move(parameters), .cost = cost};
        std::swap(current, tried);
      }
    }
    if (is_done) {
      break;
    }
  }
  return best;
}

GridMinimum MinimiseOnGrid(
    const std::function<double(double, double)>& cost, GridAxis first, GridAxis second) {
  constexpr int kPoints = 24;
  constexpr int kRounds = 10;
  constexpr double kZoom = 0.3;  // less than 2 cells would do; more, for curved valleys
  const GridAxis first_all = first;
  const GridAxis second_all = second;
  GridMinimum best{.first = first.low, .second = second.low, .cost = cost(first.low, second.low)};
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i <= kPoints; ++i) {
      const double x = first.low + (first.high - first.low) * i / kPoints;
      for (int j = 0; j <= kPoints; ++j) {
        const double y = second.low + (second.high - second.low) * j / kPoints;
        const double value = cost(x, y);
        if (value < best.cost) {
          best = {.first = x, .second = y, .cost = value};
        }
      }
    }
    const double half_first = (first.high - first.low) * kZoom / 2;
    const double half_second = (second.high - second.low) * kZoom / 2;
    first = {
        std::max(best.first - half_first, first_all.low),
        std::min(best.first + half_first, first_all.high)};
    second = {
        std::max(best.second - half_second, second_all.low),
        std::min(best.second + half_second, second_all.high)};
  }
  return best;
}

}  // namespace ps::provisioner
