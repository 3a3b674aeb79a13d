// Compiled with -ffp-contract=off: see the promise in kernels/optimizer.h.

#include "kernels/cpu/optimizer.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/optimizer_clones.h"

namespace ps::kernels {
namespace {

inline float Clip(float g, float c) {
  const float low = g < -c ? -c : g;
  return low > c ? c : low;
}

/// 1 when x is NaN or infinite; a number, since `or` over numbers is a vector instruction.
[[gnu::always_inline]] inline uint32_t IsBad(float x) {
  return std::fabs(x) <= std::numeric_limits<float>::max() ? 0U : 1U;
}

/// A zero decay is left out rather than added as 0 * w, which is NaN for infinite w.
enum class Decay : bool { kNone, kAdded };

template <Decay decay>
[[gnu::always_inline]] inline float Gradient(float g, float w, const UpdateFactors& f) {
  const float clipped = Clip(g, f.clip);
  return decay == Decay::kAdded ? clipped + f.decay * w : clipped;
}

template <Decay decay>
[[gnu::always_inline]] inline bool SgdLoop(
    const float* __restrict__ g, float* __restrict__ w, int64_t n, const UpdateFactors f) {
  uint32_t any_bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float next = w[i] - f.lr * Gradient<decay>(g[i], w[i], f);
    const uint32_t is_bad = IsBad(next);
    w[i] = is_bad == 0 ? next : w[i];
    any_bad |= is_bad;
  }
  return any_bad == 0;
}

enum class Nesterov : bool { kOff, kOn };

template <Decay decay, Nesterov nesterov>
[[gnu::always_inline]] inline bool MomentumLoop(
    const float* __restrict__ g,
    float* __restrict__ w,
    float* __restrict__ v,
    int64_t n,
    const UpdateFactors f) {
  uint32_t any_bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = Gradient<decay>(g[i], w[i], f);
    const float velocity = f.momentum * v[i] + gradient;
    const float next =
        w[i] - f.lr * (nesterov == Nesterov::kOn ? gradient + f.momentum * velocity : velocity);
    const uint32_t is_bad = IsBad(next);  // and it is when the velocity is
    v[i] = is_bad == 0 ? velocity : v[i];
    w[i] = is_bad == 0 ? next : w[i];
    any_bad |= is_bad;
  }
  return any_bad == 0;
}

template <Decay decay>
[[gnu::always_inline]] inline bool AdamLoop(
    const float* __restrict__ g,
    float* __restrict__ w,
    float* __restrict__ m,
    float* __restrict__ v,
    int64_t n,
    const UpdateFactors f) {
  uint32_t any_bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = Gradient<decay>(g[i], w[i], f);
    const float mean = f.beta1 * m[i] + (1.0F - f.beta1) * gradient;
    const float square = f.beta2 * v[i] + (1.0F - f.beta2) * (gradient * gradient);
    const float root = std::sqrt(square) / f.root_factor + f.epsilon;
    const float next = f.w_factor * w[i] - f.step_size * (mean / root);
    const uint32_t is_bad = IsBad(square) | IsBad(next);  // the latter when the mean is
    m[i] = is_bad == 0 ? mean : m[i];
    v[i] = is_bad == 0 ? square : v[i];
    w[i] = is_bad == 0 ? next : w[i];
    any_bad |= is_bad;
  }
  return any_bad == 0;
}

template <Decay decay>
[[gnu::always_inline]] inline bool AdagradLoop(
    const float* __restrict__ g,
    float* __restrict__ w,
    float* __restrict__ v,
    int64_t n,
    const UpdateFactors f) {
  uint32_t any_bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = Gradient<decay>(g[i], w[i], f);
    const float sum = v[i] + gradient * gradient;
    const float next = w[i] - f.lr * (gradient / (std::sqrt(sum) + f.epsilon));
    const uint32_t is_bad = IsBad(sum) | IsBad(next);
    v[i] = is_bad == 0 ? sum : v[i];
    w[i] = is_bad == 0 ? next : w[i];
    any_bad |= is_bad;
  }
  return any_bad == 0;
}

PS_VECTOR_CLONES bool Sgd(const OptimizerBuffers& b, const UpdateFactors& f) {
  return f.decay != 0 ? SgdLoop<Decay::kAdded>(b.g, b.w, b.n, f)
                      : SgdLoop<Decay::kNone>(b.g, b.w, b.n, f);
}

PS_VECTOR_CLONES bool Momentum(const OptimizerBuffers& b, const UpdateFactors& f) {
  return f.decay != 0 ? MomentumLoop<Decay::kAdded, Nesterov::kOff>(b.g, b.w, b.slots[0], b.n, f)
                      : MomentumLoop<Decay::kNone, Nesterov::kOff>(b.g, b.w, b.slots[0], b.n, f);
}

PS_VECTOR_CLONES bool NesterovMomentum(const OptimizerBuffers& b, const UpdateFactors& f) {
  return f.decay != 0 ? MomentumLoop<Decay::kAdded, Nesterov::kOn>(b.g, b.w, b.slots[0], b.n, f)
                      : MomentumLoop<Decay::kNone, Nesterov::kOn>(b.g, b.w, b.slots[0], b.n, f);
}

PS_VECTOR_CLONES bool Adam(const OptimizerBuffers& b, const UpdateFactors& f) {
  return f.decay != 0 ? AdamLoop<Decay::kAdded>(b.g, b.w, b.slots[0], b.slots[1], b.n, f)
                      : AdamLoop<Decay::kNone>(b.g, b.w, b.slots[0], b.slots[1], b.n, f);
}

PS_VECTOR_CLONES bool Adagrad(const OptimizerBuffers& b, const UpdateFactors& f) {
  return f.decay != 0 ? AdagradLoop<Decay::kAdded>(b.g, b.w, b.slots[0], b.n, f)
                      : AdagradLoop<Decay::kNone>(b.g, b.w, b.slots[0], b.n, f);
}

}  // namespace

bool ApplyUpdate(
    const OptimizerRule& rule, const UpdateStep& step, const OptimizerBuffers& buffers) {
  const UpdateFactors f = MakeUpdateFactors(rule, step);
  switch (rule.kind) {
    case OptimizerKind::kSgd:
      if (rule.momentum == 0) {
        return Sgd(buffers, f);
      }
      return rule.nesterov ? NesterovMomentum(buffers, f) : Momentum(buffers, f);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return Adam(buffers, f);
    case OptimizerKind::kAdagrad:
      return Adagrad(buffers, f);
  }
  return true;
}

}  // namespace ps::kernels
