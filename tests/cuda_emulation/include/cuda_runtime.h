#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <utility>

#include "tests/cuda_emulation/block.h"
#include "tests/cuda_emulation/runtime.h"

// Stands in for CUDA's header of this name: the language of kernels, as far as kernels/cuda uses
// it, so that a .cu file compiles as C++. One block runs at a time, which is why its shared memory
// may be static; as on a device nobody clears it between blocks.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

// Set before a thread goes on.
extern dim3 threadIdx;
extern dim3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

constexpr int warpSize = 32;

// Loaded and stored at once; the sanitizer finds one that is not aligned.
struct alignas(16) float4 {
  float x, y, z, w;
};

struct alignas(8) float2 {
  float x, y;
};

struct alignas(8) uint2 {
  unsigned x, y;
};

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

struct cudaLaunchConfig_t {
  dim3 gridDim = {};
  dim3 blockDim = {};
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(
    const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  return ps::cuda_emulation::Launch(
      config->stream,
      config->gridDim,
      config->blockDim,
      [=] { kernel(arguments...); },
      reinterpret_cast<const void*>(kernel),
      config->dynamicSmemBytes);
}

template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(
    void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  ps::cuda_emulation::WaitForBlock(where);
}

inline void __syncwarp(
    unsigned mask = ~0U, std::source_location where = std::source_location::current()) {
  ps::cuda_emulation::MeetWarp(mask, {}, where);
}

namespace ps::cuda_emulation {

template <typename T>
uint64_t ToBits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

/// The value of lane `source`, which must be among those of the mask.
template <typename T>
T Shuffle(unsigned mask, T value, unsigned source, const std::source_location& where) {
  const uint64_t bits = LaneValue(MeetWarp(mask, {ToBits(value)}, where), mask, source, where);
  T result;
  std::memcpy(&result, &bits, sizeof(T));
  return result;
}

/// The tensor cores' m16n8k16 of bf16, by the same fragments (kernels/cuda/mma.cuh): the lanes show
/// each other what they have, and each adds up its own sums.
inline void MmaBf16(
    float (&d)[4],
    const uint32_t (&a)[4],
    const uint32_t (&b)[2],
    const std::source_location& where = std::source_location::current()) {
  const auto both = [](uint32_t low, uint32_t high) {
    return low | static_cast<uint64_t>(high) << 32;
  };
  // Of a the depths 0 to 7, and 8 to 15; of b all.
  const LaneValues& lanes =
      MeetWarp(~0U, {both(a[0], a[1]), both(a[2], a[3]), both(b[0], b[1])}, where);
  const auto value = [](uint64_t registers, unsigned second, unsigned k) {
    const uint64_t bits = registers >> (32 * second + 16 * (k % 2)) << 16 & 0xffff0000U;
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned group = Lane() / 4;  // the row, or 8 less
    const unsigned column = Lane() % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned member = k % 8 / 2;
      d[i] += value(lanes[4 * group + member][k / 8], i / 2, k) *
              value(lanes[4 * column + member][2], k / 8, k);
    }
  }
}

}  // namespace ps::cuda_emulation

template <typename T>
T __shfl_sync(
    unsigned mask,
    T value,
    int lane,
    std::source_location where = std::source_location::current()) {
  return ps::cuda_emulation::Shuffle(mask, value, static_cast<unsigned>(lane) % 32, where);
}

template <typename T>
T __shfl_xor_sync(
    unsigned mask,
    T value,
    int lane_mask,
    std::source_location where = std::source_location::current()) {
  const unsigned source = ps::cuda_emulation::Lane() ^ static_cast<unsigned>(lane_mask);
  return ps::cuda_emulation::Shuffle(mask, value, source, where);
}

template <typename T>
T __shfl_down_sync(
    unsigned mask,
    T value,
    unsigned delta,
    std::source_location where = std::source_location::current()) {
  const unsigned lane = ps::cuda_emulation::Lane();
  const unsigned source = lane + delta < 32 ? lane + delta : lane;
  return ps::cuda_emulation::Shuffle(mask, value, source, where);
}

inline unsigned __ballot_sync(
    unsigned mask, bool predicate, std::source_location where = std::source_location::current()) {
  const ps::cuda_emulation::LaneValues values =
      ps::cuda_emulation::MeetWarp(mask, {predicate ? 1U : 0U}, where);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    votes |= (mask >> lane & 1U) != 0 && values[lane][0] != 0 ? 1U << lane : 0U;
  }
  return votes;
}

inline bool __any_sync(
    unsigned mask, bool predicate, std::source_location where = std::source_location::current()) {
  return __ballot_sync(mask, predicate, where) != 0;
}

inline bool __all_sync(
    unsigned mask, bool predicate, std::source_location where = std::source_location::current()) {
  return __ballot_sync(mask, predicate, where) == mask;
}

// Threads take turns, so a plain access is an atomic one.
template <typename T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return std::exchange(*address, *address + value);
}

template <typename T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return std::exchange(*address, *address < value ? value : *address);
}

template <typename T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  return std::exchange(*address, *address == compare ? value : *address);
}

inline unsigned __float_as_uint(float value) {
  return static_cast<unsigned>(ps::cuda_emulation::ToBits(value));
}

inline float __uint_as_float(unsigned value) {
  return std::bit_cast<float>(value);
}

// One IEEE operation each, which no compiler fuses with its neighbours: the result is stored.

inline float __fadd_rn(float a, float b) {
  const volatile float rounded = a + b;
  return rounded;
}

inline float __fsub_rn(float a, float b) {
  const volatile float rounded = a - b;
  return rounded;
}

inline float __fmul_rn(float a, float b) {
  const volatile float rounded = a * b;
  return rounded;
}

inline float __fdiv_rn(float a, float b) {
  return a / b;
}

inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}

inline float __fsqrt_rn(float x) {
  return std::sqrt(x);
}
