#pragma once

#include "kernels/optimizer_parts.h"

namespace ps::kernels {

/// HeLoCo (arXiv 2606.00271), an outer optimizer for workers that do not wait for each other.
///
///   v = keep * g + towards * m                 (Turn: of all elements of a buffer together)
///   n = momentum * m + (1 - momentum) * v      (m starts at 0)
///   w -= lr * (v + momentum * (n + n - m)),  m = n
///
/// HeLoCo has a theta -= lr * (v + momentum * n) of its own and gives workers the look-ahead
/// theta - lr * momentum * n. w is that look-ahead, so that pulls, checkpoints and moves need not
/// know the rule; with a constant lr both are the same.
struct Heloco {
  static constexpr int kSlots = 1;
  static constexpr bool kAddsDecay = true;

  template <typename Use>
  PS_INLINED static auto With(const OptimizerRule& rule, const UpdateStep& step, const Use& use) {
    return use(Heloco{step.lr, rule.momentum, step.turn.keep, step.turn.towards});
  }

  PS_ELEMENTWISE float Next(float g, float w, float& m, float& /*second*/) const {
    const float v = keep * g + towards * m;
    const float n = momentum * m + (1.0F - momentum) * v;
    const float ahead = n + n - m;
    m = n;
    return w - lr * (v + momentum * ahead);
  }

  float lr;
  float momentum;
  float keep;
  float towards;
};

}  // namespace ps::kernels
