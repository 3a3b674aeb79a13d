#pragma once

#include "kernels/optimizer_parts.h"

namespace ps::kernels {

/// d += g,  w -= lr * g / every                          (d starts at 0)
struct DelayedGather {
  static constexpr int kSlots = 2;
  static constexpr bool kAddsDecay = true;

  PS_ELEMENTWISE float Next(float g, float w, float& /*m*/, float& d) const {
    d = d + g;
    return w - lr * (g / every);
  }

  float lr;
  float every;
};

/// d += g,  m = momentum * m + d / every,  w -= lr * (momentum * m + g / every),  d = 0
///                                                       (m starts at 0)
struct DelayedMove {
  static constexpr int kSlots = 2;
  static constexpr bool kAddsDecay = true;

  PS_ELEMENTWISE float Next(float g, float w, float& m, float& d) const {
    m = momentum * m + (d + g) / every;
    d = 0;
    return w - lr * (momentum * m + g / every);
  }

  float lr;
  float momentum;
  float every;
};

/// Delayed Nesterov of asynchronous local SGD (arXiv 2401.09135): of `every` updates all but the
/// last one are plain descent. With `every` 1 it is sgd with nesterov.
struct DelayedNesterov {
  template <typename Use>
  PS_INLINED static auto With(const OptimizerRule& rule, const UpdateStep& step, const Use& use) {
    const uint64_t updates = rule.every == 0 ? 1 : rule.every;  // who asks for slots knows none
    const auto every = static_cast<float>(updates);
    return step.count % updates == 0 ? use(DelayedMove{step.lr, rule.momentum, every})
                                     : use(DelayedGather{step.lr, every});
  }
};

}  // namespace ps::kernels
