#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/device/activation.cuh"
#include "kernels/cuda/device/vectors.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "ps/base/random.h"

namespace ps::kernels {
namespace {

struct Same {
  __device__ float operator()(float x) const { return x; }
};

struct Constant {
  __device__ float operator()() const { return value; }

  float value;
};

struct SumOfBoth {
  __device__ float operator()(float a, float b) const { return a + b; }
};

struct DifferenceOfBoth {
  __device__ float operator()(float a, float b) const { return a - b; }
};

struct Scaled {
  __device__ float operator()(float x) const { return x * factor; }

  float factor;
};

struct ScaledBy {
  __device__ bool is_idle() const { return *factor == 1; }

  __device__ float operator()(float x) const { return x * *factor; }

  const float* factor;
};

struct Bf16Of {
  __device__ uint16_t operator()(float x) const { return ToBf16(x); }
};

struct Relu {
  __device__ float operator()(float x) const { return x > 0 ? x : 0.0F; }
};

/// Two elements share 64 random bits, as on the CPU.
struct Dropped {
  template <int width>
  __device__ void Apply(
      int64_t first, const SideBySide<float, width>& x, SideBySide<float, width>* y) const {
    const uint64_t key = Mix64(mask.key ^ *mask.step);
    if (width > 1 && first % 2 == 0) {
      PS_UNROLL
      for (int i = 0; i < width; i += 2) {
        const uint64_t pair = PairOf(key, first + i);
        y->of[i] = x.of[i] * FactorBy(pair >> 32);
        if constexpr (width > 1) {
          y->of[i + 1] = x.of[i + 1] * FactorBy(pair & 0xffffffffU);
        }
      }
      return;
    }
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      const uint64_t pair = PairOf(key, first + i);
      y->of[i] = x.of[i] * FactorBy((first + i) % 2 == 0 ? pair >> 32 : pair & 0xffffffffU);
    }
  }

  __device__ static uint64_t PairOf(uint64_t key, int64_t i) {
    return Mix64(key ^ (static_cast<uint64_t>(i) & ~uint64_t{1}));
  }

  __device__ float FactorBy(uint64_t bits) const {
    return bits < mask.threshold ? 0.0F : mask.scale;
  }

  DropoutMask mask;
};

constexpr int kTile = 32;
constexpr int kTileRows = 8;

/// One tile of 32 x 32 a block. Shared memory has a column more, so that its columns lie in
/// different banks.
__global__ void TransposeKernel(
    const float* __restrict__ x, float* __restrict__ y, int64_t n, int64_t rows, int64_t columns) {
  __shared__ float tile[kTile][kTile + 1];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t column0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int column = static_cast<int>(threadIdx.x);
  for (int64_t sample = blockIdx.z; sample < n; sample += gridDim.z) {
    const float* from = x + sample * rows * columns;
    float* to = y + sample * rows * columns;
    for (int row = static_cast<int>(threadIdx.y); row < kTile; row += kTileRows) {
      if (row0 + row < rows && column0 + column < columns) {
        tile[row][column] = from[(row0 + row) * columns + column0 + column];
      }
    }
    __syncthreads();
    for (int row = static_cast<int>(threadIdx.y); row < kTile; row += kTileRows) {
      if (column0 + row < columns && row0 + column < rows) {
        to[(column0 + row) * rows + row0 + column] = tile[column][row];
      }
    }
    __syncthreads();
  }
}

}  // namespace

cudaError_t CopyValues(cudaStream_t stream, const float* x, float* y, int64_t n) {
  return Map(stream, n, Same{}, y, x);
}

cudaError_t FillValues(cudaStream_t stream, float value, float* y, int64_t n) {
  return Map(stream, n, Constant{value}, y);
}

cudaError_t AddValues(cudaStream_t stream, const float* a, const float* b, float* y, int64_t n) {
  return Map(stream, n, SumOfBoth{}, y, a, b);
}

cudaError_t SubtractValues(
    cudaStream_t stream, const float* a, const float* b, float* y, int64_t n) {
  return Map(stream, n, DifferenceOfBoth{}, y, a, b);
}

cudaError_t ScaleValues(cudaStream_t stream, float factor, float* x, int64_t n) {
  return Map<Scaled, float, float>(stream, n, Scaled{factor}, x, x);
}

cudaError_t ScaleValuesBy(cudaStream_t stream, const float* factor, float* x, int64_t n) {
  return Map<ScaledBy, float, float>(stream, n, ScaledBy{factor}, x, x);
}

cudaError_t PackBf16Values(cudaStream_t stream, const float* x, uint16_t* y, int64_t n) {
  return Map(stream, n, Bf16Of{}, y, x);
}

cudaError_t ReluForward(cudaStream_t stream, const float* x, float* y, int64_t n) {
  return Map(stream, n, Relu{}, y, x);
}

cudaError_t ReluBackward(
    cudaStream_t stream, const float* y, const float* dy, float* dx, int64_t n) {
  return Map(stream, n, ReluGradient{}, dx, y, dy);
}

cudaError_t GeluForward(cudaStream_t stream, const float* x, float* y, int64_t n) {
  return Map(stream, n, Gelu{}, y, x);
}

cudaError_t GeluBackward(
    cudaStream_t stream, const float* x, const float* dy, float* dx, int64_t n) {
  return Map(stream, n, GeluGradient{}, dx, x, dy);
}

cudaError_t ApplyDropout(
    cudaStream_t stream, const DropoutMask& mask, const float* x, float* y, int64_t n) {
  return Map(stream, n, Dropped{mask}, y, x);
}

cudaError_t TransposeSamples(
    cudaStream_t stream, const float* x, float* y, int64_t n, int64_t rows, int64_t columns) {
  constexpr int64_t kGridZMax = 65535;
  const dim3 grid(
      static_cast<unsigned>(DivideUp(columns, kTile)),
      static_cast<unsigned>(DivideUp(rows, kTile)),
      static_cast<unsigned>(n < kGridZMax ? n : kGridZMax));
  return Launch(stream, grid, dim3(kTile, kTileRows), &TransposeKernel, x, y, n, rows, columns);
}

}  // namespace ps::kernels
