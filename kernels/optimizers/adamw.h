#pragma once

#include "kernels/optimizers/adam.h"

namespace ps::kernels {

/// torch.optim.AdamW: w *= 1 - lr * weight_decay, then as Adam.
struct Adamw {
  static constexpr int kSlots = Adam::kSlots;
  static constexpr bool kAddsDecay = false;

  template <typename Use>
  PS_INLINED static auto With(const OptimizerRule& rule, const UpdateStep& step, const Use& use) {
    return use(Adamw{
        Adam::Of(rule, step),
        static_cast<float>(1.0 - double{step.lr} * double{step.weight_decay})});
  }

  PS_ELEMENTWISE float Next(float g, float w, float& m, float& v) const {
    return adam.Next(g, w_factor * w, m, v);
  }

  Adam adam;
  float w_factor;
};

}  // namespace ps::kernels
