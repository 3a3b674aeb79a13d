#pragma once

#include <cuda_runtime.h>

#include <cmath>

namespace ps::kernels {

/// By the output.
struct ReluGradient {
  __device__ float operator()(float y, float dy) const { return y > 0 ? dy : 0.0F; }
};

/// x * Phi(x), Phi the normal distribution function by erf.
struct Gelu {
  static constexpr float kInverseSqrt2 = 0.707106781F;

  __device__ float operator()(float x) const { return 0.5F * x * (1 + erff(x * kInverseSqrt2)); }
};

/// By the input.
struct GeluGradient {
  static constexpr float kInverseSqrt2Pi = 0.398942280F;

  __device__ float operator()(float x, float dy) const {
    const float share = 0.5F * (1 + erff(x * Gelu::kInverseSqrt2));
    return dy * (share + x * kInverseSqrt2Pi * expf(-0.5F * x * x));
  }
};

}  // namespace ps::kernels
