#pragma once

#include "kernels/optimizer_parts.h"

namespace ps::kernels {

/// torch.optim.Adagrad without its decay of the rate:
///   v += g^2                                  (v starts at 0)
///   w -= lr * g / (sqrt(v) + epsilon)
struct Adagrad {
  static constexpr int kSlots = 1;
  static constexpr bool kAddsDecay = true;

  template <typename Use>
  PS_INLINED static auto With(const OptimizerRule& rule, const UpdateStep& step, const Use& use) {
    return use(Adagrad{step.lr, rule.epsilon});
  }

  PS_ELEMENTWISE float Next(float g, float w, float& v, float& /*second*/) const {
    v += g * g;
    return w - lr * (g / (std::sqrt(v) + epsilon));
  }

  float lr;
  float epsilon;
};

}  // namespace ps::kernels
