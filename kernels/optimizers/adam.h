#pragma once

#include "kernels/optimizer_parts.h"

namespace ps::kernels {

/// torch.optim.Adam:
///   m = beta1 * m + (1 - beta1) * g
///   v = beta2 * v + (1 - beta2) * g^2
///   w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
struct Adam {
  static constexpr int kSlots = 2;
  static constexpr bool kAddsDecay = true;

  PS_INLINED static Adam Of(const OptimizerRule& rule, const UpdateStep& step) {
    const auto t = static_cast<double>(step.count);
    return {
        rule.beta1,
        rule.beta2,
        rule.epsilon,
        static_cast<float>(step.lr / (1.0 - std::pow(double{rule.beta1}, t))),
        static_cast<float>(std::sqrt(1.0 - std::pow(double{rule.beta2}, t)))};
  }

  template <typename Use>
  PS_INLINED static auto With(const OptimizerRule& rule, const UpdateStep& step, const Use& use) {
    return use(Of(rule, step));
  }

  PS_ELEMENTWISE float Next(float g, float w, float& m, float& v) const {
    m = beta1 * m + (1.0F - beta1) * g;
    v = beta2 * v + (1.0F - beta2) * (g * g);
    return w - step_size * (m / (std::sqrt(v) / root_factor + epsilon));
  }

  float beta1;
  float beta2;
  float epsilon;
  float step_size;
  float root_factor;
};

}  // namespace ps::kernels
