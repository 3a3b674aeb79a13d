#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/device_code.h"
#include "kernels/loss.h"
#include "ps/base/check.h"

// The losses, element by element, once for all devices. Slopes are by the output; a NaN reaches
// both.

namespace ps::kernels {

/// (z - t)^2
struct SquaredError {
  PS_ELEMENTWISE double Loss(float z, float t) const {
    const double error = static_cast<double>(z) - static_cast<double>(t);
    return error * error;
  }

  PS_ELEMENTWISE float Slope(float z, float t) const { return 2 * (z - t); }

  PS_ELEMENTWISE bool IsRight(float /*z*/, float /*t*/) const { return false; }
};

/// |z - t|; its slope at 0 is 0.
struct AbsoluteError {
  PS_ELEMENTWISE double Loss(float z, float t) const {
    return std::fabs(static_cast<double>(z) - static_cast<double>(t));
  }

  PS_ELEMENTWISE float Slope(float z, float t) const {
    const float error = z - t;
    return error > 0 ? 1.0F : error < 0 ? -1.0F : error;
  }

  PS_ELEMENTWISE bool IsRight(float /*z*/, float /*t*/) const { return false; }
};

/// (z - t)^2 / 2 where |z - t| <= delta, else delta (|z - t| - delta / 2)
struct HuberError {
  PS_ELEMENTWISE double Loss(float z, float t) const {
    const double error = std::fabs(static_cast<double>(z) - static_cast<double>(t));
    const double limit = static_cast<double>(delta);
    return error > limit ? limit * (error - limit / 2) : error * error / 2;
  }

  PS_ELEMENTWISE float Slope(float z, float t) const {
    const float error = z - t;
    return error > delta ? delta : error < -delta ? -delta : error;
  }

  PS_ELEMENTWISE bool IsRight(float /*z*/, float /*t*/) const { return false; }

  float delta;
};

/// - t log(s) - (1 - t) log(1 - s), s = 1 / (1 + exp(-z)); without the overflow of exp.
struct BinaryCrossEntropy {
  PS_ELEMENTWISE double Loss(float z, float t) const {
    const double positive = z < 0 ? 0.0 : static_cast<double>(z);  // a NaN stays one
    return positive - static_cast<double>(z) * static_cast<double>(t) +
           static_cast<double>(std::log1p(std::exp(-std::fabs(z))));
  }

  PS_ELEMENTWISE float Slope(float z, float t) const { return 1 / (1 + std::exp(-z)) - t; }

  PS_ELEMENTWISE bool IsRight(float z, float t) const { return t > 0.5F ? z > 0 : z <= 0; }
};

/// What `use` returns for the element's loss. Requires: labels are numbers.
template <typename Use>
auto WithElement(LossKind kind, float delta, const Use& use) -> decltype(use(SquaredError())) {
  switch (kind) {
    case LossKind::kMse:
      return use(SquaredError());
    case LossKind::kMae:
      return use(AbsoluteError());
    case LossKind::kHuber:
      return use(HuberError{delta});
    case LossKind::kBce:
      return use(BinaryCrossEntropy());
    case LossKind::kSoftmaxCrossEntropy:
      break;
  }
  PS_CHECK(false) << "a loss of classes has no elements";
  return use(SquaredError());
}

/// The weights of a row's terms -log(p[j]), where there is smoothing or classes have weights.
struct ClassTarget {
  PS_ELEMENTWISE bool is_plain() const { return smoothing == 0 && class_weights == nullptr; }

  PS_ELEMENTWISE float WeightOf(int64_t j) const {
    return class_weights == nullptr ? 1.0F : class_weights[j];
  }

  PS_ELEMENTWISE float At(int64_t j, int64_t label) const {
    const float spread = smoothing / static_cast<float>(classes) * WeightOf(j);
    return j == label ? (1 - smoothing) * WeightOf(j) + spread : spread;
  }

  int64_t classes;
  float smoothing;
  const float* class_weights;
};

/// The order of a row's outputs, of equal ones the first.
struct Ranking {
  /// A label is near the top behind fewer classes.
  static constexpr int64_t kNear = 5;

  PS_ELEMENTWISE bool IsBefore(float z, int64_t j) const {
    return z > chosen || (z == chosen && j < label);
  }

  float chosen;  // the label's output
  int64_t label;
};

}  // namespace ps::kernels
