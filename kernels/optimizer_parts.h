#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/device_code.h"
#include "kernels/optimizer.h"

// What the rules in kernels/optimizers are made of. A rule K is a struct with
//
//   static auto With(rule, step, use)   use(an optimizer): itself, or the variant of it that the
//                                       rule asks for, each with its own loop
//
// and an optimizer has
//
//   kSlots                    state buffers: 0, 1 or 2
//   kAddsDecay                weight decay is added to the gradient before Next
//   Next(g, w, first, second) the element's next parameter; its state is updated in place
//
// with what the elements have in common worked out before, once and on the host. All is inlined and
// nothing has a constructor: clang 19 compiles none that only functions for several processors
// (PS_VECTOR_CLONES) call.

namespace ps::kernels {

/// The gradient that an optimizer gets: clipped to [-clip, clip], and with weight decay where that
/// belongs there.
struct GradientMaker {
  template <typename Optimizer>
  PS_INLINED static GradientMaker Of(
      const Optimizer& /*optimizer*/, const OptimizerRule& rule, const UpdateStep& step) {
    return {
        rule.clip_value > 0 ? rule.clip_value : std::numeric_limits<float>::infinity(),
        Optimizer::kAddsDecay ? step.weight_decay : 0};
  }

  PS_ELEMENTWISE float Clipped(float g) const {
    const float low = g < -clip ? -clip : g;
    return low > clip ? clip : low;
  }

  /// A decay of 0 is left out rather than added as 0 * w, which is NaN for infinite w.
  PS_ELEMENTWISE float Decayed(float g, float w) const { return Clipped(g) + decay * w; }

  float clip;
  float decay;
};

}  // namespace ps::kernels
