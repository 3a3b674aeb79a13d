#pragma once

#include <bit>
#include <cstdint>

// What loops over many values share: how they are compiled, and bfloat16.

// PS_VECTOR_CLONES in front of a function compiles it for baseline x86-64, AVX2 and AVX-512, and
// the loader takes the best that the machine has: release binaries are built for the baseline. Such
// functions are elementwise or integer and their files are compiled without contraction to fused
// multiply-add, so all clones give the same bits. Sanitizers instrument the resolvers that choose a
// clone before their own runtime is up (TSan crashes), so there is only the baseline then.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define PS_HAS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PS_HAS_SANITIZER 1
#endif

#if defined(__x86_64__) && defined(__linux__) && !defined(PS_HAS_SANITIZER)
#define PS_VECTOR_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define PS_VECTOR_CLONES
#endif

namespace ps {

/// x rounded to bfloat16, the upper half of an f32: to the nearest, ties to even; a NaN stays one.
/// In the upper half of the result; the lower one has no meaning.
constexpr uint32_t ToBf16InUpperHalf(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return is_nan ? bits | 0x400000U : bits + 0x7fffU + ((bits >> 16U) & 1U);
}

constexpr uint16_t ToBf16(float x) {
  return static_cast<uint16_t>(ToBf16InUpperHalf(x) >> 16U);
}

constexpr float FromBf16(uint16_t x) {
  return std::bit_cast<float>(uint32_t{x} << 16U);
}

}  // namespace ps
