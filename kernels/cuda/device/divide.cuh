#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace ps::kernels {

// Quotients of element numbers by sizes that the host knows. A device divides 64-bit numbers by
// some hundred instructions; 32-bit ones by a multiplication and a shift, once the factor is known.

/// The quotient and what is left.
template <typename Index>
struct Division {
  Index quotient;
  Index rest;
};

/// Divides numbers below 2^31 by one of [1, 2^31): the rounded-up reciprocal of Granlund and
/// Montgomery, "Division by invariant integers using multiplication" (PLDI 1994).
class Divisor32 {
 public:
  using Index = uint32_t;

  explicit Divisor32(int64_t divisor) : divisor_(static_cast<uint32_t>(divisor)) {
    while (shift_ < 31 && uint32_t{1} << shift_ < divisor_) {
      ++shift_;
    }
    const uint64_t power = uint64_t{1} << shift_;
    factor_ = static_cast<uint32_t>(((power - divisor_) << 32) / divisor_ + 1);
  }

  __device__ Division<uint32_t> Divide(uint32_t i) const {
    const auto high = static_cast<uint32_t>((uint64_t{i} * factor_) >> 32);
    const uint32_t quotient = (high + i) >> shift_;
    return {quotient, i - quotient * divisor_};
  }

 private:
  uint32_t divisor_;
  uint32_t factor_ = 0;
  uint32_t shift_ = 0;
};

/// The same for all sizes, by the device's division.
class Divisor64 {
 public:
  using Index = int64_t;

  explicit Divisor64(int64_t divisor) : divisor_(divisor) {}

  __device__ Division<int64_t> Divide(int64_t i) const { return {i / divisor_, i % divisor_}; }

 private:
  int64_t divisor_;
};

/// Calls use.operator()<Divisor>() with the divisor for numbers up to `largest`.
template <typename Use>
auto WithDivisor(int64_t largest, const Use& use) {
  return largest <= std::numeric_limits<int32_t>::max() ? use.template operator()<Divisor32>()
                                                        : use.template operator()<Divisor64>();
}

}  // namespace ps::kernels
