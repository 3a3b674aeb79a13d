#include <cmath>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

constexpr int kWarps = kThreads / 32;

/// A logit and where it is.
struct Largest {
  float value;
  int64_t index;
};

/// The first largest of a row, in every lane. A NaN is never larger.
__device__ Largest LargestOfRow(const float* z, int64_t classes, int lane) {
  Largest best{-INFINITY, classes};
  for (int64_t j = lane; j < classes; j += 32) {
    if (z[j] > best.value || best.index == classes) {
      best = {z[j], j};
    }
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const Largest other{
        __shfl_xor_sync(kAllLanes, best.value, distance),
        __shfl_xor_sync(kAllLanes, best.index, distance)};
    const bool is_better =
        other.value > best.value || (other.index < best.index && !(best.value > other.value));
    best = is_better ? other : best;
  }
  return best;
}

/// A warp a row: the loss, and with dz the gradient, in one go. parts[block] is the sum over the
/// block's rows.
__global__ void CrossEntropyKernel(LossArgs args, LossResult* parts) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int64_t labelled = args.labelled == nullptr ? 0 : *args.labelled;
  const float inverse_n = 1.0F / static_cast<float>(labelled == 0 ? args.n : labelled);
  double loss = 0;  // of lane 0
  int64_t correct = 0;
  for (int64_t row = first; row < args.n; row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const float* z = args.logits + row * args.classes;
    const int64_t label = args.labels[row];
    if (label == kNoLabel) {
      for (int64_t j = lane; args.dz != nullptr && j < args.classes; j += 32) {
        args.dz[row * args.classes + j] = 0;
      }
      continue;
    }
    const float chosen = z[label];
    const Largest best = LargestOfRow(z, args.classes, lane);
    double sum = 0;
    for (int64_t j = lane; j < args.classes; j += 32) {
      sum += static_cast<double>(expf(z[j] - best.value));
    }
    sum = WarpSum(sum);
    if (lane == 0) {
      loss += log(sum) - static_cast<double>(chosen - best.value);
      correct += best.index == label && !std::isnan(sum) ? 1 : 0;
    }
    if (args.dz == nullptr) {
      continue;
    }
    __syncwarp();  // dz may be z, and every lane has read its `chosen`
    float* dz = args.dz + row * args.classes;
    const auto inverse_sum = static_cast<float>(1.0 / sum);
    for (int64_t j = lane; j < args.classes; j += 32) {
      const float probability = expf(z[j] - best.value) * inverse_sum;
      dz[j] = (probability - (j == label ? 1.0F : 0.0F)) * inverse_n;
    }
  }
  loss = BlockSum<kThreads>(loss);
  correct = BlockSum<kThreads>(correct);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = {loss, correct};
  }
}

__global__ void SumResultsKernel(const LossResult* parts, int64_t n, LossResult* out) {
  static_assert(kPartialsMax <= kThreads);
  const bool has_part = threadIdx.x < n;
  const double loss = BlockSum<kThreads>(has_part ? parts[threadIdx.x].loss_sum : 0.0);
  const int64_t correct = BlockSum<kThreads>(has_part ? parts[threadIdx.x].correct : int64_t{0});
  if (threadIdx.x == 0) {
    *out = {loss, correct};
  }
}

}  // namespace

cudaError_t CrossEntropy(cudaStream_t stream, const LossArgs& args, LossResult* scratch) {
  const int64_t wanted = DivideUp(args.n, kWarps);
  const int64_t parts = wanted < 1 ? 1 : wanted < kPartialsMax ? wanted : kPartialsMax;
  const cudaError_t error = Launch(
      stream,
      dim3(static_cast<unsigned>(parts)),
      dim3(kThreads),
      &CrossEntropyKernel,
      args,
      scratch);
  return error == cudaSuccess
             ? Launch(
                   stream, dim3(1), dim3(kThreads), &SumResultsKernel, scratch, parts, args.result)
             : error;
}

}  // namespace ps::kernels
