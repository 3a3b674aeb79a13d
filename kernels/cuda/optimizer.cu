// Compiled without contraction to fused multiply-add: see the promise in kernels/optimizer.h.
//
// A model has hundreds of tensors, most of them small: a kernel for each would cost more than what
// it does. So a launch does a list of them, which travels in the kernel's arguments.

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/optimizers_generated.h"

namespace ps::kernels {
namespace {

/// Arguments of a kernel have 4 KiB on every device.
constexpr size_t kListBytes = 3072;
/// Blocks that share a tensor: more than a device runs at once, few enough to be passed over fast
/// by the small tensors of a list with a large one.
constexpr int64_t kTensorBlocksMax = 1024;

/// An entry has n elements, and does element i of them in operator()(i).
template <typename Entry>
struct TensorList {
  static constexpr size_t kMax = kListBytes / sizeof(Entry);

  Entry entries[kMax];
};

template <typename Entry>
__global__ void ForEachOfListKernel(TensorList<Entry> list) {
  const Entry& entry = list.entries[blockIdx.y];
  for (int64_t i = FirstElement(); i < entry.n; i += ElementStride()) {
    entry(i);
  }
}

/// Does the entries make(0) to make(count - 1). nvcc can't name a type that is worked out from
/// that of a lambda, so the entry's is told.
template <typename Entry, typename Make>
cudaError_t ForEachOfList(cudaStream_t stream, size_t count, const Make& make) {
  for (size_t begin = 0; begin < count; begin += TensorList<Entry>::kMax) {
    const size_t size = std::min(count - begin, TensorList<Entry>::kMax);
    TensorList<Entry> list{};
    int64_t most = 0;
    for (size_t i = 0; i < size; ++i) {
      list.entries[i] = make(begin + i);
      most = std::max(most, list.entries[i].n);
    }
    const int64_t blocks = std::min(DivideUp(most, kThreads), kTensorBlocksMax);
    const cudaError_t error = Launch(
        stream,
        dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(size)),
        dim3(kThreads),
        &ForEachOfListKernel<Entry>,
        list);
    if (error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}

__device__ inline bool IsFinite(float x) {
  return (__float_as_uint(x) & 0x7f800000U) != 0x7f800000U;
}

template <typename Optimizer>
struct UpdatedTensor {
  __device__ void operator()(int64_t i) const {
    const float gradient = maker.decay != 0 ? maker.Decayed(g[i], w[i]) : maker.Clipped(g[i]);
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
  const float* g;
  float* w;
  float* first;
  float* second;
  int64_t n;
  uint32_t* left_out;
};

/// Whether the optimizer of another step is one of this type, and then which.
template <typename Optimizer>
struct Keep {
  template <typename Other>
  bool operator()(const Other& other) const {
    if constexpr (std::is_same_v<Optimizer, Other>) {
      *to = other;
      return true;
    } else {
      return false;
    }
  }

  Optimizer* to;
};

/// Does the updates whose optimizers are of one type: a rule may have one for some steps and
/// another one for the others, which are left in `updates`.
struct UpdateSome {
  template <typename Optimizer>
  cudaError_t operator()(const Optimizer& first) const {
    std::vector<UpdatedTensor<Optimizer>> own;
    std::vector<TensorUpdate> others;
    for (const TensorUpdate& update : *updates) {
      Optimizer optimizer = first;
      if (!WithOptimizer(rule, update.step, Keep<Optimizer>{&optimizer})) {
        others.push_back(update);
        continue;
      }
      const OptimizerBuffers& buffers = update.buffers;
      own.push_back(
          {optimizer,
           GradientMaker::Of(optimizer, rule, update.step),
           buffers.g,
           buffers.w,
           buffers.slots[0],
           buffers.slots[1],
           buffers.n,
           left_out});
    }
    *updates = std::move(others);
    return ForEachOfList<UpdatedTensor<Optimizer>>(
        stream, own.size(), [&own](size_t i) { return own[i]; });
  }

  cudaStream_t stream;
  const OptimizerRule& rule;
  std::vector<TensorUpdate>* updates;
  uint32_t* left_out;
};

struct MovedAverage {
  __device__ void operator()(int64_t i) const {
    const float next = move.w[i] + move.rate * (move.x[i] - move.w[i]);
    if (IsFinite(next)) {
      move.w[i] = next;
    }
  }

  AverageMove move;
  int64_t n;
};

struct CheckedTensor {
  __device__ void operator()(int64_t i) const {
    if (!IsFinite(x[i])) {
      *not_finite = 1;  // every thread that comes here writes the same
    }
  }

  const float* x;
  int64_t n;
  uint32_t* not_finite;
};

}  // namespace

cudaError_t UpdateParameters(
    cudaStream_t stream,
    const OptimizerRule& rule,
    std::span<const TensorUpdate> updates,
    uint32_t* left_out) {
  std::vector<TensorUpdate> left(updates.begin(), updates.end());
  cudaError_t error = cudaSuccess;
  while (!left.empty() && error == cudaSuccess) {
    error = WithOptimizer(rule, left[0].step, UpdateSome{stream, rule, &left, left_out});
  }
  return error;
}

cudaError_t MoveAveragesTowards(cudaStream_t stream, std::span<const AverageMove> moves) {
  return ForEachOfList<MovedAverage>(stream, moves.size(), [&](size_t i) {
    return MovedAverage{moves[i], moves[i].n};
  });
}

cudaError_t FindNotFinite(cudaStream_t stream, ConstSpans tensors, uint32_t* not_finite) {
  // A float of 0 has the bits of the number 0.
  auto* const flags = reinterpret_cast<float*>(not_finite);
  const cudaError_t error = FillValues(stream, 0, flags, static_cast<int64_t>(tensors.size()));
  return error != cudaSuccess
             ? error
             : ForEachOfList<CheckedTensor>(stream, tensors.size(), [&](size_t i) {
                 return CheckedTensor{
                     tensors[i].data(), static_cast<int64_t>(tensors[i].size()), &not_finite[i]};
               });
}

}  // namespace ps::kernels
