#include <bit>
#include <cfloat>
#include <cmath>

#include "kernels/cuda/device/vectors.cuh"
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

/// The sum over a block of `threads`, into *part. All threads call it.
template <unsigned threads>
__device__ void AddUpBlock(const LossResult& own, LossResult* part) {
  const double loss = BlockSum<threads>(own.loss_sum);
  const int64_t correct = BlockSum<threads>(own.correct);
  const int64_t near = BlockSum<threads>(own.near);
  const double squared_error = BlockSum<threads>(own.squared_error);
  const double absolute_error = BlockSum<threads>(own.absolute_error);
  if (threadIdx.x == 0) {
    *part = {loss, correct, near, squared_error, absolute_error};
  }
}

/// Where classes are few, a warp a row: the loss, and with dz the gradient, in one go. parts[block]
/// is the sum over the block's rows.
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
  AddUpBlock<kThreads>(own, &parts[blockIdx.x]);
}

/// Where classes are many, a row has a block: at least so many classes, and such a block.
constexpr int64_t kClassesOfBlock = 512;
constexpr unsigned kRowThreads = 512;

/// The same in every thread of a row's block, all of which call it: the values combined in a fixed
/// order.
template <typename T, typename Combine>
__device__ T OverRow(T value, const Combine& combine) {
  __shared__ T of_warp[kRowThreads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  __syncthreads();  // an earlier call has been read
  if (threadIdx.x % 32 == 0) {
    of_warp[threadIdx.x / 32] = value;
  }
  __syncthreads();
  value = of_warp[0];
  for (unsigned warp = 1; warp < kRowThreads / 32; ++warp) {
    value = combine(value, of_warp[warp]);
  }
  return value;
}

struct PlusOf {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct LargerOf {
  __device__ float operator()(float a, float b) const { return b > a ? b : a; }
};

/// What one pass over a row's outputs finds. In `sum`, a NaN stays one. is_plain: the target's.
template <bool is_plain>
struct RowSums {
  /// Outputs j, j + 1 and so on.
  template <int width>
  __device__ void Add(const SideBySide<float, width>& z, int64_t j) {
    float larger = largest;
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      larger = LargerOf()(larger, z.of[i]);
    }
    if (larger > largest) {
      sum *= expf(largest - larger);
      largest = larger;
    }
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      sum += expf(z.of[i] - largest);
      before += ranking.IsBefore(z.of[i], j + i) ? 1 : 0;
    }
    for (int i = 0; i < width && !is_plain; ++i) {
      const auto weight = static_cast<double>(target.At(j + i, ranking.label));
      total += weight;
      drawn += weight == 0 ? 0.0 : weight * static_cast<double>(z.of[i]);
    }
  }

  /// The whole row's, in every thread.
  __device__ void AddUpRow() {
    const float of_row = OverRow(largest, LargerOf());
    // As many terms as a thread has are added up in float, all of a row's are not.
    sum_of_row = OverRow(static_cast<double>(sum * expf(largest - of_row)), PlusOf());
    largest = of_row;
    before = OverRow(before, PlusOf());
    if constexpr (is_plain) {
      total = 1;
      drawn = static_cast<double>(ranking.chosen);
    } else {
      total = OverRow(total, PlusOf());
      drawn = OverRow(drawn, PlusOf());
    }
  }

  __device__ double Loss() const {
    return total * log(sum_of_row) - (drawn - total * static_cast<double>(largest));
  }

  ClassTarget target;
  Ranking ranking;
  // Not minus infinity, from which minus infinity is NaN.
  float largest = -FLT_MAX;
  float sum = 0;  // of exp(z - largest)
  int before = 0;
  double total = 0;
  double drawn = 0;  // before AddUpRow and after it, without the largest
  double sum_of_row = 0;
};

/// The gradient at some outputs of a row.
template <bool is_plain>
struct RowGradient {
  template <int width>
  __device__ SideBySide<float, width> Of(SideBySide<float, width> z, int64_t j) const {
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      const float probability = expf(z.of[i] - largest) * inverse_sum;
      const float wanted = is_plain ? (j + i == label ? 1.0F : 0.0F) : target.At(j + i, label);
      z.of[i] = (probability - wanted) * scale;
    }
    return z;
  }

  ClassTarget target;
  int64_t label;
  float largest;
  float inverse_sum;
  float scale;
};

/// How a block's threads share a row: by fours from the first aligned place on, and the few values
/// before and behind them one by one.
struct RowCut {
  __device__ RowCut(const float* row, int64_t classes) {
    const auto place = static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(float) % 4);
    head = (4 - place) % 4;
    fours = classes > head ? (classes - head) / 4 : 0;
    head = classes > head ? head : classes;
    edge = classes - 4 * fours;
    edge_begin = 4 * fours;
  }

  /// The place of the thread's value that is none of the fours, or -1.
  __device__ int64_t Edge() const {
    const int64_t i = threadIdx.x;
    return i < head ? i : i < edge ? edge_begin + i : -1;
  }

  int64_t head;
  int64_t fours;
  int64_t edge;
  int64_t edge_begin;
};

/// Backwards, because what the block has read last is likeliest to be in the cache. dz may be z.
template <bool is_plain>
__device__ void WriteRowGradient(
    const RowCut& cut, const RowGradient<is_plain>& gradient, const float* z, float* dz) {
  const bool has_fours =
      (reinterpret_cast<uintptr_t>(z) - reinterpret_cast<uintptr_t>(dz)) % sizeof(float4) == 0;
  const auto load = [&](int64_t four) { return LoadVector<4>(z + cut.head + 4 * four); };
  const auto store = [&](int64_t four, const SideBySide<float, 4>& of_four) {
    const int64_t j = cut.head + 4 * four;
    const SideBySide<float, 4> values = gradient.Of(of_four, j);
    if (has_fours) {
      StoreVector(values, dz + j);
      return;
    }
    PS_UNROLL
    for (int i = 0; i < 4; ++i) {
      dz[j + i] = values.of[i];
    }
  };
  constexpr int64_t kStep = kRowThreads;
  int64_t four = (cut.fours - 1 - static_cast<int64_t>(threadIdx.x)) / kStep * kStep + threadIdx.x;
  for (; four >= kStep && four < cut.fours; four -= 2 * kStep) {
    const SideBySide<float, 4> later = load(four);
    const SideBySide<float, 4> earlier = load(four - kStep);
    store(four, later);
    store(four - kStep, earlier);
  }
  if (four >= 0 && four < cut.fours) {
    store(four, load(four));
  }
  const int64_t edge = cut.Edge();
  if (edge >= 0) {
    StoreVector(gradient.Of(LoadVector<1>(z + edge), edge), dz + edge);
  }
}

/// A block a row, of which one pass finds all that the loss and its gradient need.
template <bool is_plain>
__global__ void __launch_bounds__(kRowThreads, is_plain ? 2 : 1)
    WideCrossEntropyKernel(LossArgs args, LossResult* parts) {
  const float scale = ScaleOf(args, args.n);
  const ClassTarget target{args.classes, args.smoothing, args.class_weights};
  LossResult own;  // of thread 0
  for (int64_t row = blockIdx.x; row < args.n; row += gridDim.x) {
    const float* z = args.logits + row * args.classes;
    float* dz = args.dz == nullptr ? nullptr : args.dz + row * args.classes;
    const int64_t label = args.labels[row];
    if (label == kNoLabel) {
      for (int64_t j = threadIdx.x; dz != nullptr && j < args.classes; j += kRowThreads) {
        dz[j] = 0;
      }
      continue;
    }
    const RowCut cut(z, args.classes);
    RowSums<is_plain> sums{target, {z[label], label}};
    PS_UNROLL_BY(4)
    for (int64_t four = threadIdx.x; four < cut.fours; four += kRowThreads) {
      sums.Add(LoadVector<4>(z + cut.head + 4 * four), cut.head + 4 * four);
    }
    const int64_t edge = cut.Edge();
    if (edge >= 0) {
      sums.Add(LoadVector<1>(z + edge), edge);
    }
    sums.AddUpRow();  // all threads have read the label's output, and dz may be z
    if (threadIdx.x == 0) {
      const bool is_nan = std::isnan(sums.sum_of_row);
      own.loss_sum += sums.Loss();
      own.correct += sums.before == 0 && !is_nan ? 1 : 0;
      own.near += args.counts_near && sums.before < Ranking::kNear && !is_nan ? 1 : 0;
    }
    if (dz != nullptr) {
      const auto inverse_sum = static_cast<float>(sums.total / sums.sum_of_row);
      const RowGradient<is_plain> gradient{target, label, sums.largest, inverse_sum, scale};
      WriteRowGradient(cut, gradient, z, dz);
    }
  }
  AddUpBlock<kRowThreads>(own, &parts[blockIdx.x]);
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
  AddUpBlock<kThreads>(own, &parts[blockIdx.x]);
}

__global__ void SumResultsKernel(const LossResult* parts, int64_t n, LossResult* out) {
  static_assert(kPartialsMax <= kThreads);
  AddUpBlock<kThreads>(threadIdx.x < n ? parts[threadIdx.x] : LossResult(), out);
}

}  // namespace

cudaError_t LossOf(cudaStream_t stream, const LossArgs& args, LossResult* scratch) {
  const bool is_wide = HasClasses(args.kind) && args.classes >= kClassesOfBlock;
  const int64_t wanted = is_wide ? args.n : DivideUp(args.n, kWarps);
  const int64_t parts = wanted < 1 ? 1 : wanted < kPartialsMax ? wanted : kPartialsMax;
  const dim3 grid(static_cast<unsigned>(parts));
  const dim3 block(kThreads);
  cudaError_t error = cudaSuccess;
  if (is_wide) {
    const bool is_plain = ClassTarget{args.classes, args.smoothing, args.class_weights}.is_plain();
    const auto kernel = is_plain ? &WideCrossEntropyKernel<true> : &WideCrossEntropyKernel<false>;
    error = Launch(stream, grid, dim3(kRowThreads), kernel, args, scratch);
  } else if (HasClasses(args.kind)) {
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
