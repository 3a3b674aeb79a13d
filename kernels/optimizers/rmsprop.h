#pragma once

#include "kernels/optimizer_parts.h"

namespace ps::kernels {

/// v = alpha * v + (1 - alpha) * g^2         (v starts at 0)
/// w -= lr * g / (sqrt(v) + epsilon)
struct PlainRmsprop {
  static constexpr int kSlots = 1;
  static constexpr bool kAddsDecay = true;

  /// What the gradient becomes.
  PS_ELEMENTWISE float Scaled(float g, float& v) const {
    v = alpha * v + (1.0F - alpha) * (g * g);
    return g / (std::sqrt(v) + epsilon);
  }

  PS_ELEMENTWISE float Next(float g, float w, float& v, float& /*second*/) const {
    return w - lr * Scaled(g, v);
  }

  float lr;
  float alpha;
  float epsilon;
};

/// b = momentum * b + g / (sqrt(v) + epsilon),  w -= lr * b      (b starts at
/// 0)
struct MomentumRmsprop {
  static constexpr int kSlots = 2;
  static constexpr bool kAddsDecay = true;

  PS_ELEMENTWISE float Next(float g, float w, float& v, float& b) const {
    b = momentum * b + plain.Scaled(g, v);
    return w - plain.lr * b;
  }

  PlainRmsprop plain;
  float momentum;
};

/// torch.optim.RMSprop without `centered`, which keeps a third buffer with
/// momentum; servers and checkpoints have room for two.
struct Rmsprop {
  template <typename Use>
  PS_INLINED static auto With(const OptimizerRule& rule, const UpdateStep& step, const Use& use) {
    const PlainRmsprop plain{step.lr, rule.alpha, rule.epsilon};
    return rule.momentum == 0 ? use(plain) : use(MomentumRmsprop{plain, rule.momentum});
  }
};

}  // namespace ps::kernels
