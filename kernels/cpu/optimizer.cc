// Compiled with -ffp-contract=off: see the promise in kernels/optimizer.h.

#include "kernels/cpu/optimizer.h"

#include <cmath>
#include <limits>

#include "kernels/optimizers_generated.h"
#include "ps/base/vector_code.h"

namespace ps::kernels {
namespace {

/// 1 when x is NaN or infinite; a number, since `or` over numbers is a vector instruction.
[[gnu::always_inline]] inline uint32_t IsBad(float x) {
  return std::fabs(x) <= std::numeric_limits<float>::max() ? 0U : 1U;
}

enum class Decay : bool { kNone, kAdded };

/// Returns false when an element was left out.
template <Decay decay, typename Optimizer>
[[gnu::always_inline]] inline bool UpdateLoop(
    const Optimizer optimizer,
    const GradientMaker maker,
    const float* __restrict__ g,
    float* __restrict__ w,
    float* __restrict__ first,
    float* __restrict__ second,
    int64_t n) {
  constexpr bool kHasFirst = Optimizer::kSlots > 0;
  constexpr bool kHasSecond = Optimizer::kSlots > 1;
  uint32_t any_bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = decay == Decay::kAdded ? maker.Decayed(g[i], w[i]) : maker.Clipped(g[i]);
    float next_first = kHasFirst ? first[i] : 0;
    float next_second = kHasSecond ? second[i] : 0;
    const float next = optimizer.Next(gradient, w[i], next_first, next_second);
    uint32_t is_bad = IsBad(next);
    if constexpr (kHasFirst) {
      is_bad |= IsBad(next_first);
    }
    if constexpr (kHasSecond) {
      is_bad |= IsBad(next_second);
      second[i] = is_bad == 0 ? next_second : second[i];
    }
    if constexpr (kHasFirst) {
      first[i] = is_bad == 0 ? next_first : first[i];
    }
    w[i] = is_bad == 0 ? next : w[i];
    any_bad |= is_bad;
  }
  return any_bad == 0;
}

struct Update {
  template <typename Optimizer>
  [[gnu::always_inline]] bool operator()(const Optimizer& optimizer) const {
    const GradientMaker maker = GradientMaker::Of(optimizer, rule, step);
    return maker.decay != 0 ? Run<Decay::kAdded>(optimizer, maker)
                            : Run<Decay::kNone>(optimizer, maker);
  }

  template <Decay decay, typename Optimizer>
  [[gnu::always_inline]] bool Run(const Optimizer& optimizer, const GradientMaker& maker) const {
    return UpdateLoop<decay>(
        optimizer, maker, buffers.g, buffers.w, buffers.slots[0], buffers.slots[1], buffers.n);
  }

  const OptimizerRule& rule;
  const UpdateStep& step;
  const OptimizerBuffers& buffers;
};

/// All rules are inlined here, so that each is compiled for each kind of processor.
PS_VECTOR_CLONES bool UpdateByRule(const Update& update) {
  return WithOptimizer(update.rule, update.step, update);
}

}  // namespace

bool ApplyUpdate(
    const OptimizerRule& rule, const UpdateStep& step, const OptimizerBuffers& buffers) {
  return UpdateByRule({rule, step, buffers});
}

}  // namespace ps::kernels
