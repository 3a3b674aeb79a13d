#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ps/base/check.h"

namespace ps::kernels {

// Optimizers on one contiguous piece of parameters, in place, one pass over memory. The formulas
// and the meaning of every field are PyTorch's (torch.optim.SGD, Adam, AdamW, Adagrad, version 2),
// so that learning rates found there hold here. With g clipped to [-clip_value, clip_value] first,
// and lr, weight_decay and t from UpdateStep:
//
//   sgd       g += weight_decay * w
//             without momentum:  w -= lr * g
//             v = momentum * v + g                              (v starts at 0, dampening is 0)
//             w -= lr * v,  nesterov: w -= lr * (g + momentum * v)
//   adam      g += weight_decay * w, then as adamw without its decay
//   adamw     w *= 1 - lr * weight_decay
//             m = beta1 * m + (1 - beta1) * g
//             v = beta2 * v + (1 - beta2) * g^2
//             w -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//   adagrad   g += weight_decay * w,  v += g^2                  (v starts at 0, no lr decay)
//             w -= lr * g / (sqrt(v) + epsilon)
//
// An element whose parameter or state would become NaN or infinite keeps both as they were: a huge
// gradient, though finite, must not spoil a parameter for good.
//
// Every operation is one IEEE operation in f32, in the order written, never fused: any machine and
// any device gives the same bits, and sgd gives those of a plain loop.

enum class OptimizerKind : uint8_t { kSgd, kAdam, kAdamW, kAdagrad };

/// What stays the same during a job.
struct OptimizerRule {
  OptimizerKind kind = OptimizerKind::kSgd;
  float momentum = 0;  // sgd; 0: plain
  bool nesterov = false;
  float beta1 = 0.9F;  // adam, adamw
  float beta2 = 0.999F;
  float epsilon = 1e-8F;  // adam, adamw, adagrad
  float clip_value = 0;   // 0: off
};

inline constexpr int kOptimizerSlotsMax = 2;

/// State buffers that the rule keeps per parameter buffer, each of its size, zero at the start:
/// sgd with momentum v, adam and adamw m and v, adagrad v.
inline int OptimizerSlotCount(const OptimizerRule& rule) {
  switch (rule.kind) {
    case OptimizerKind::kSgd:
      return rule.momentum == 0 ? 0 : 1;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return 2;
    case OptimizerKind::kAdagrad:
      return 1;
  }
  PS_CHECK(false) << "no optimizer " << static_cast<int>(rule.kind);
  return 0;
}

/// What differs from update to update.
struct UpdateStep {
  float lr = 0;            // weight of the push included
  float weight_decay = 0;  // 0 for tensors that have none
  uint64_t count = 1;      // t: updates of this buffer including this one, from 1
};

/// Scalars of one update, worked out once and on the host, so that every device has the same.
struct UpdateFactors {
  float lr = 0;
  float decay = 0;
  float clip = 0;
  float momentum = 0;
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0;
  float w_factor = 1;     // adamw: 1 - lr * decay
  float step_size = 0;    // adam: lr / (1 - beta1^t)
  float root_factor = 1;  // adam: sqrt(1 - beta2^t)
};

inline UpdateFactors MakeUpdateFactors(const OptimizerRule& rule, const UpdateStep& step) {
  UpdateFactors f;
  f.lr = step.lr;
  f.decay = step.weight_decay;
  f.clip = rule.clip_value > 0 ? rule.clip_value : std::numeric_limits<float>::infinity();
  f.momentum = rule.momentum;
  f.beta1 = rule.beta1;
  f.beta2 = rule.beta2;
  f.epsilon = rule.epsilon;
  if (rule.kind == OptimizerKind::kAdam || rule.kind == OptimizerKind::kAdamW) {
    const auto t = static_cast<double>(step.count);
    f.step_size = static_cast<float>(step.lr / (1.0 - std::pow(double{rule.beta1}, t)));
    f.root_factor = static_cast<float>(std::sqrt(1.0 - std::pow(double{rule.beta2}, t)));
  }
  if (rule.kind == OptimizerKind::kAdamW) {
    f.w_factor = static_cast<float>(1.0 - double{step.lr} * double{step.weight_decay});
    f.decay = 0;
  }
  return f;
}

/// One piece's memory: no two buffers overlap.
struct OptimizerBuffers {
  const float* g = nullptr;                           // [n] f32  gradient, finite, read
  float* w = nullptr;                                 // [n] f32  parameters, read and written
  std::array<float*, kOptimizerSlotsMax> slots = {};  // [n] f32  the rule's, read and written
  int64_t n = 0;
};

}  // namespace ps::kernels
