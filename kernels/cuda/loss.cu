#include <bit>
#include <cmath>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/loss_elements.h"

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

/// 1 / what the sum of `terms` losses becomes a mean by.
__device__ float ScaleOf(const LossArgs& args, int64_t terms) {
  const double divisor = args.divisor == nullptr ? 0 : *args.divisor;
  return 1.0F / static_cast<float>(divisor == 0 ? static_cast<double>(terms) : divisor);
}

/// The sum over the threads of a block, into *part. All threads call it.
__device__ void AddUpBlock(const LossResult& own, LossResult* part) {
  const double loss = BlockSum<kThreads>(own.loss_sum);
  const int64_t correct = BlockSum<kThreads>(own.correct);
  const int64_t near = BlockSum<kThreads>(own.near);
  const double squared_error = BlockSum<kThreads>(own.squared_error);
  const double absolute_error = BlockSum<kThreads>(own.absolute_error);
  if (threadIdx.x == 0) {
    *part = {loss, correct, near, squared_error, absolute_error};
  }
}

/// A warp a row: the loss, and with dz the gradient, in one go. parts[block] is the sum over the
/// block's rows.
__global__ void CrossEntropyKernel(LossArgs args, LossResult* parts) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const float scale = ScaleOf(args, args.n);
  const ClassTarget target{args.classes, args.smoothing, args.class_weights};
  LossResult own;  // of lane 0
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
    double total = 1;
    double drawn = static_cast<double>(chosen - best.value);
    if (!target.is_plain()) {
      total = 0;
      drawn = 0;
      for (int64_t j = lane; j < args.classes; j += 32) {
        const auto weight = static_cast<double>(target.At(j, label));
        total += weight;
        drawn += weight == 0 ? 0.0 : weight * static_cast<double>(z[j] - best.value);
      }
      total = WarpSum(total);
      drawn = WarpSum(drawn);
    }
    const Ranking ranking{chosen, label};
    int64_t before = 0;
    for (int64_t j = lane; args.counts_near && j < args.classes; j += 32) {
      before += ranking.IsBefore(z[j], j) ? 1 : 0;
    }
    before = WarpSum(before);
    if (lane == 0) {
      own.loss_sum += total * log(sum) - drawn;
      own.correct += best.index == label && !std::isnan(sum) ? 1 : 0;
      own.near += args.counts_near && before < Ranking::kNear && !std::isnan(sum) ? 1 : 0;
    }
    if (args.dz == nullptr) {
      continue;
    }
    __syncwarp();  // dz may be z, and every lane has read its `chosen`
    float* dz = args.dz + row * args.classes;
    const auto inverse_sum = static_cast<float>(total / sum);
    for (int64_t j = lane; j < args.classes; j += 32) {
      const float probability = expf(z[j] - best.value) * inverse_sum;
      const float wanted = target.is_plain() ? (j == label ? 1.0F : 0.0F) : target.At(j, label);
      dz[j] = (probability - wanted) * scale;
    }
  }
  AddUpBlock(own, &parts[blockIdx.x]);
}

/// The same where labels are numbers, one for each output.
template <typename Element>
__global__ void ElementLossKernel(LossArgs args, Element element, LossResult* parts) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const float scale = ScaleOf(args, args.n * args.classes);
  LossResult own;
  for (int64_t row = first; row < args.n; row += static_cast<int64_t>(gridDim.x) * kWarps) {
    int64_t wrong = 0;
    for (int64_t i = row * args.classes + lane; i < (row + 1) * args.classes; i += 32) {
      const float z = args.logits[i];
      const auto t = std::bit_cast<float>(args.labels[i]);
      const double error = static_cast<double>(z) - static_cast<double>(t);
      own.loss_sum += element.Loss(z, t);
      own.squared_error += error * error;
      own.absolute_error += fabs(error);
      const bool is_right = element.IsRight(z, t);
      own.correct += is_right ? 1 : 0;
      wrong += is_right ? 0 : 1;
      if (args.dz != nullptr) {
        args.dz[i] = element.Slope(z, t) * scale;
      }
    }
    wrong = WarpSum(wrong);
    own.near += args.counts_near && lane == 0 && wrong == 0 ? 1 : 0;
  }
  AddUpBlock(own, &parts[blockIdx.x]);
}

__global__ void SumResultsKernel(const LossResult* parts, int64_t n, LossResult* out) {
  static_assert(kPartialsMax <= kThreads);
  AddUpBlock(threadIdx.x < n ? parts[threadIdx.x] : LossResult(), out);
}

}  // namespace

cudaError_t LossOf(cudaStream_t stream, const LossArgs& args, LossResult* scratch) {
  const int64_t wanted = DivideUp(args.n, kWarps);
  const int64_t parts = wanted < 1 ? 1 : wanted < kPartialsMax ? wanted : kPartialsMax;
  const dim3 grid(static_cast<unsigned>(parts));
  const dim3 block(kThreads);
  cudaError_t error = cudaSuccess;
  if (HasClasses(args.kind)) {
    error = Launch(stream, grid, block, &CrossEntropyKernel, args, scratch);
  } else {
    error = WithElement(args.kind, args.delta, [&]<typename Element>(const Element& element) {
      return Launch(stream, grid, block, &ElementLossKernel<Element>, args, element, scratch);
    });
  }
  return error == cudaSuccess
             ? Launch(stream, dim3(1), block, &SumResultsKernel, scratch, parts, args.result)
             : error;
}

}  // namespace ps::kernels
