#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace ps::kernels {
namespace {

// The compiler fuses a product and a sum where it can; these it leaves alone, which is what makes
// the bits those of the CPU. The formulas are kernels/cpu/optimizer.cc's, operation by operation.

__device__ inline bool IsFinite(float x) {
  return (__float_as_uint(x) & 0x7f800000U) != 0x7f800000U;
}

/// What the rules have in common.
struct Update {
  __device__ float Gradient(int64_t i) const {
    const float low = g[i] < -f.clip ? -f.clip : g[i];
    const float clipped = low > f.clip ? f.clip : low;
    return f.decay == 0 ? clipped : __fadd_rn(clipped, __fmul_rn(f.decay, w[i]));
  }

  /// Every thread that comes here writes the same.
  __device__ void LeaveOut() const {
    if (left_out != nullptr) {
      *left_out = 1;
    }
  }

  UpdateFactors f;
  const float* g;
  float* w;
  float* first;
  float* second;
  uint32_t* left_out;
};

struct SgdElement {
  __device__ void operator()(int64_t i) const {
    const float next = __fsub_rn(u.w[i], __fmul_rn(u.f.lr, u.Gradient(i)));
    if (IsFinite(next)) {
      u.w[i] = next;
    } else {
      u.LeaveOut();
    }
  }

  Update u;
};

struct MomentumElement {
  __device__ void operator()(int64_t i) const {
    const float gradient = u.Gradient(i);
    const float velocity = __fadd_rn(__fmul_rn(u.f.momentum, u.first[i]), gradient);
    const float direction =
        is_nesterov ? __fadd_rn(gradient, __fmul_rn(u.f.momentum, velocity)) : velocity;
    const float next = __fsub_rn(u.w[i], __fmul_rn(u.f.lr, direction));
    if (IsFinite(next)) {
      u.first[i] = velocity;
      u.w[i] = next;
    } else {
      u.LeaveOut();
    }
  }

  Update u;
  bool is_nesterov;
};

struct AdamElement {
  __device__ void operator()(int64_t i) const {
    const float gradient = u.Gradient(i);
    const float mean = __fadd_rn(
        __fmul_rn(u.f.beta1, u.first[i]), __fmul_rn(__fsub_rn(1.0F, u.f.beta1), gradient));
    const float square = __fadd_rn(
        __fmul_rn(u.f.beta2, u.second[i]),
        __fmul_rn(__fsub_rn(1.0F, u.f.beta2), __fmul_rn(gradient, gradient)));
    const float root = __fadd_rn(__fdiv_rn(__fsqrt_rn(square), u.f.root_factor), u.f.epsilon);
    const float next =
        __fsub_rn(__fmul_rn(u.f.w_factor, u.w[i]), __fmul_rn(u.f.step_size, __fdiv_rn(mean, root)));
    if (IsFinite(square) && IsFinite(next)) {
      u.first[i] = mean;
      u.second[i] = square;
      u.w[i] = next;
    } else {
      u.LeaveOut();
    }
  }

  Update u;
};

struct AdagradElement {
  __device__ void operator()(int64_t i) const {
    const float gradient = u.Gradient(i);
    const float sum = __fadd_rn(u.first[i], __fmul_rn(gradient, gradient));
    const float root = __fadd_rn(__fsqrt_rn(sum), u.f.epsilon);
    const float next = __fsub_rn(u.w[i], __fmul_rn(u.f.lr, __fdiv_rn(gradient, root)));
    if (IsFinite(sum) && IsFinite(next)) {
      u.first[i] = sum;
      u.w[i] = next;
    } else {
      u.LeaveOut();
    }
  }

  Update u;
};

}  // namespace

cudaError_t UpdateParameters(
    cudaStream_t stream,
    const OptimizerRule& rule,
    const UpdateFactors& factors,
    const OptimizerBuffers& buffers,
    uint32_t* left_out) {
  const Update update{factors, buffers.g, buffers.w, buffers.slots[0], buffers.slots[1], left_out};
  switch (rule.kind) {
    case OptimizerKind::kSgd:
      return rule.momentum == 0
                 ? ForEach(stream, buffers.n, SgdElement{update})
                 : ForEach(stream, buffers.n, MomentumElement{update, rule.nesterov});
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return ForEach(stream, buffers.n, AdamElement{update});
    case OptimizerKind::kAdagrad:
      return ForEach(stream, buffers.n, AdagradElement{update});
  }
  return cudaErrorInvalidValue;
}

}  // namespace ps::kernels
