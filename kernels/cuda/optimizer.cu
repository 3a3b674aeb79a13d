// Compiled without contraction to fused multiply-add: see the promise in kernels/optimizer.h.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/optimizers_generated.h"

namespace ps::kernels {
namespace {

__device__ inline bool IsFinite(float x) {
  return (__float_as_uint(x) & 0x7f800000U) != 0x7f800000U;
}

template <typename Optimizer>
struct UpdateElement {
  __device__ void operator()(int64_t i) const {
    const float gradient = has_decay ? maker.Decayed(g[i], w[i]) : maker.Clipped(g[i]);
    float next_first = Optimizer::kSlots > 0 ? first[i] : 0;
    float next_second = Optimizer::kSlots > 1 ? second[i] : 0;
    const float next = optimizer.Next(gradient, w[i], next_first, next_second);
    if (!IsFinite(next) || !IsFinite(next_first) || !IsFinite(next_second)) {
      if (left_out != nullptr) {
        *left_out = 1;  // every thread that comes here writes the same
      }
      return;
    }
    if (Optimizer::kSlots > 0) {
      first[i] = next_first;
    }
    if (Optimizer::kSlots > 1) {
      second[i] = next_second;
    }
    w[i] = next;
  }

  Optimizer optimizer;
  GradientMaker maker;
  bool has_decay;
  const float* g;
  float* w;
  float* first;
  float* second;
  uint32_t* left_out;
};

struct Update {
  template <typename Optimizer>
  cudaError_t operator()(const Optimizer& optimizer) const {
    const GradientMaker maker = GradientMaker::Of(optimizer, rule, step);
    return ForEach(
        stream,
        buffers.n,
        UpdateElement<Optimizer>{
            optimizer,
            maker,
            maker.decay != 0,
            buffers.g,
            buffers.w,
            buffers.slots[0],
            buffers.slots[1],
            left_out});
  }

  cudaStream_t stream;
  const OptimizerRule& rule;
  const UpdateStep& step;
  const OptimizerBuffers& buffers;
  uint32_t* left_out;
};

}  // namespace

cudaError_t UpdateParameters(
    cudaStream_t stream,
    const OptimizerRule& rule,
    const UpdateStep& step,
    const OptimizerBuffers& buffers,
    uint32_t* left_out) {
  return WithOptimizer(rule, step, Update{stream, rule, step, buffers, left_out});
}

}  // namespace ps::kernels
