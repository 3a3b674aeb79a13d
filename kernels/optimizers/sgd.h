#pragma once

#include "kernels/optimizer_parts.h"

namespace ps::kernels {

/// w -= lr * g
struct PlainSgd {
  static constexpr int kSlots = 0;
  static constexpr bool kAddsDecay = true;

  PS_ELEMENTWISE float Next(float g, float w, float& /*first*/, float& /*second*/) const {
    return w - lr * g;
  }

  float lr;
};

/// v = momentum * v + g                              (v starts at 0, dampening is 0)
/// w -= lr * v,  nesterov: w -= lr * (g + momentum * v)
template <bool is_nesterov>
struct MomentumSgd {
  static constexpr int kSlots = 1;
  static constexpr bool kAddsDecay = true;

  PS_ELEMENTWISE float Next(float g, float w, float& v, float& /*second*/) const {
    v = momentum * v + g;
    return w - lr * (is_nesterov ? g + momentum * v : v);
  }

  float lr;
  float momentum;
};

/// torch.optim.SGD.
struct Sgd {
  template <typename Use>
  PS_INLINED static auto With(const OptimizerRule& rule, const UpdateStep& step, const Use& use) {
    if (rule.momentum == 0) {
      return use(PlainSgd{step.lr});
    }
    return rule.nesterov ? use(MomentumSgd<true>{step.lr, rule.momentum})
                         : use(MomentumSgd<false>{step.lr, rule.momentum});
  }
};

}  // namespace ps::kernels
