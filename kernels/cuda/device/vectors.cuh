#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/launch.cuh"

namespace ps::kernels {

// Work on each element of long vectors, which memory bounds: four elements an access where the
// addresses allow it, and two accesses of a thread under way at once.

/// Elements that lie side by side and are loaded and stored at once.
template <typename T, int width>
struct alignas(sizeof(T) * width) SideBySide {
  T of[width];
};

template <int width, typename T>
__device__ SideBySide<T, width> LoadVector(const T* from) {
  return *reinterpret_cast<const SideBySide<T, width>*>(from);
}

// One instruction each: of two stores in a row, the compiler takes the second apart.

__device__ inline void StoreFour(const float (&v)[4], float* to) {
#ifdef __CUDA_ARCH__
  asm volatile(
      "st.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
      : "memory");
#else
  *reinterpret_cast<float4*>(to) = {v[0], v[1], v[2], v[3]};
#endif
}

__device__ inline void StorePair(uint32_t first, uint32_t second, void* to) {
#ifdef __CUDA_ARCH__
  asm volatile("st.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(first), "r"(second) : "memory");
#else
  *static_cast<uint2*>(to) = {first, second};
#endif
}

template <typename T, int width>
__device__ void StoreVector(const SideBySide<T, width>& values, T* to) {
  const T(&v)[width] = values.of;
  if constexpr (width == 4 && std::is_same_v<T, float>) {
    StoreFour(v, to);
  } else if constexpr (width == 4 && std::is_same_v<T, uint16_t>) {
    StorePair(v[0] | uint32_t{v[1]} << 16, v[2] | uint32_t{v[3]} << 16, to);
  } else {
    *reinterpret_cast<SideBySide<T, width>*>(to) = values;
  }
}

/// Whether rows of so many columns of all of these can be taken four at a time.
template <typename... T>
bool AreFours(int64_t columns, const T*... matrices) {
  return columns % 4 == 0 &&
         ((reinterpret_cast<uintptr_t>(matrices) % (4 * sizeof(T)) == 0) && ...);
}

/// How many of n elements are done one by one before all of these vectors can be taken by fours:
/// up to three, or all of them where their addresses have no such place in common. Those that are
/// nullptr are not asked.
template <typename... T>
int64_t UnalignedHead(int64_t n, const T*... vectors) {
  const auto is_aligned = [](const auto* vector, uintptr_t head) {
    const uintptr_t size = sizeof(*vector);
    return vector == nullptr || (reinterpret_cast<uintptr_t>(vector) / size + head) % 4 == 0;
  };
  for (int64_t head = 0; head < 4 && head < n; ++head) {
    if ((is_aligned(vectors, static_cast<uintptr_t>(head)) && ...)) {
      return head;
    }
  }
  return n;
}

/// Whether the function has nothing to do, which it then says by itself.
template <typename Function>
__device__ bool IsIdle(const Function& function) {
  if constexpr (requires { function.is_idle(); }) {
    return function.is_idle();
  }
  return false;
}

template <typename Function>
__global__ void __launch_bounds__(kThreads)
    ForEachVectorKernel(int64_t head, int64_t n, Function function) {
  if (IsIdle(function)) {
    return;
  }
  for (int64_t i = FirstElement(); i < head; i += ElementStride()) {
    function.Store(i, function.template Load<1>(i));
  }
  const int64_t fours = (n - head) / 4;
  int64_t four = FirstElement();
  for (; four + ElementStride() < fours; four += 2 * ElementStride()) {
    const int64_t first = head + 4 * four;
    const int64_t second = first + 4 * ElementStride();
    const auto of_first = function.template Load<4>(first);
    const auto of_second = function.template Load<4>(second);
    function.Store(first, of_first);
    function.Store(second, of_second);
  }
  if (four < fours) {
    function.Store(head + 4 * four, function.template Load<4>(head + 4 * four));
  }
  const int64_t rest = head + 4 * fours + FirstElement();
  if (rest < n) {  // at most three
    function.Store(rest, function.template Load<1>(rest));
  }
}

/// Puts function.Store(i, function.Load<width>(i)) into the stream for groups of one or four
/// elements that begin at i and are those of [0, n), each once, in any order. Elements before
/// `head` come one by one: UnalignedHead of what the function loads and stores.
template <typename Function>
cudaError_t ForEachVector(cudaStream_t stream, int64_t n, int64_t head, const Function& function) {
  const int64_t units = head < n ? DivideUp(n - head, 8) : 0;
  const int64_t wanted = DivideUp(units > head ? units : head, kThreads);
  const int64_t blocks = wanted < kBlocksMax ? wanted : kBlocksMax;
  return Launch(
      stream,
      dim3(static_cast<unsigned>(blocks)),
      dim3(kThreads),
      &ForEachVectorKernel<Function>,
      head,
      n,
      function);
}

/// An element of the output from those of `inputs` vectors at the same place.
template <typename Function, typename Out, int inputs>
struct MapElements {
  template <int width>
  struct Loaded {
    SideBySide<float, width> x[inputs == 0 ? 1 : inputs];
  };

  template <int width>
  __device__ Loaded<width> Load(int64_t i) const {
    Loaded<width> loaded;
    PS_UNROLL
    for (int k = 0; k < inputs; ++k) {
      loaded.x[k] = LoadVector<width>(x[k] + i);
    }
    return loaded;
  }

  template <int width>
  __device__ void Store(int64_t first, const Loaded<width>& loaded) const {
    SideBySide<Out, width> values;
    if constexpr (requires { function.Apply(first, loaded.x[0], &values); }) {
      function.Apply(first, loaded.x[0], &values);
    } else {
      PS_UNROLL
      for (int i = 0; i < width; ++i) {
        if constexpr (inputs == 0) {
          values.of[i] = function();
        } else if constexpr (inputs == 1) {
          values.of[i] = function(loaded.x[0].of[i]);
        } else {
          values.of[i] = function(loaded.x[0].of[i], loaded.x[1].of[i]);
        }
      }
    }
    StoreVector(values, y + first);
  }

  __device__ bool is_idle() const { return IsIdle(function); }

  Function function;
  const float* x[inputs == 0 ? 1 : inputs];
  Out* y;
};

/// y[i] = function(x[i]...) for i in [0, n); y may be one of the inputs.
template <typename Function, typename Out, typename... In>
cudaError_t Map(cudaStream_t stream, int64_t n, const Function& function, Out* y, const In*... x) {
  constexpr int kInputs = sizeof...(In);
  static_assert(kInputs <= 2 && (std::is_same_v<In, float> && ...));
  return ForEachVector(
      stream,
      n,
      UnalignedHead(n, y, x...),
      MapElements<Function, Out, kInputs>{function, {x...}, y});
}

}  // namespace ps::kernels
