#include <cmath>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "ps/base/random.h"

namespace ps::kernels {
namespace {

struct CopyElement {
  __device__ void operator()(int64_t i) const { y[i] = x[i]; }

  const float* x;
  float* y;
};

struct FillElement {
  __device__ void operator()(int64_t i) const { y[i] = value; }

  float value;
  float* y;
};

struct AddElement {
  __device__ void operator()(int64_t i) const { y[i] = a[i] + b[i]; }

  const float* a;
  const float* b;
  float* y;
};

struct SubtractElement {
  __device__ void operator()(int64_t i) const { y[i] = a[i] - b[i]; }

  const float* a;
  const float* b;
  float* y;
};

struct ScaleElement {
  __device__ void operator()(int64_t i) const { x[i] *= factor; }

  float factor;
  float* x;
};

struct ScaleByElement {
  __device__ void operator()(int64_t i) const {
    if (*factor != 1) {
      x[i] *= *factor;
    }
  }

  const float* factor;
  float* x;
};

struct PackElement {
  __device__ void operator()(int64_t i) const { y[i] = ToBf16(x[i]); }

  const float* x;
  uint16_t* y;
};

struct ReluElement {
  __device__ void operator()(int64_t i) const { y[i] = x[i] > 0 ? x[i] : 0.0F; }

  const float* x;
  float* y;
};

struct ReluGradient {
  __device__ void operator()(int64_t i) const { dx[i] = y[i] > 0 ? dy[i] : 0.0F; }

  const float* y;
  const float* dy;
  float* dx;
};

constexpr float kInverseSqrt2 = 0.707106781F;
constexpr float kInverseSqrt2Pi = 0.398942280F;

struct GeluElement {
  __device__ void operator()(int64_t i) const {
    y[i] = 0.5F * x[i] * (1 + erff(x[i] * kInverseSqrt2));
  }

  const float* x;
  float* y;
};

struct GeluGradient {
  __device__ void operator()(int64_t i) const {
    const float v = x[i];
    const float share = 0.5F * (1 + erff(v * kInverseSqrt2));
    dx[i] = dy[i] * (share + v * kInverseSqrt2Pi * expf(-0.5F * v * v));
  }

  const float* x;
  const float* dy;
  float* dx;
};

/// Two elements share 64 random bits, as on the CPU.
struct DropoutElement {
  __device__ void operator()(int64_t i) const {
    const uint64_t key = Mix64(mask.key ^ *mask.step);
    const uint64_t pair = Mix64(key ^ (static_cast<uint64_t>(i) & ~uint64_t{1}));
    const uint64_t bits = i % 2 == 0 ? pair >> 32 : pair & 0xffffffffU;
    y[i] = x[i] * (bits < mask.threshold ? 0.0F : mask.scale);
  }

  DropoutMask mask;
  const float* x;
  float* y;
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
  return ForEach(stream, n, CopyElement{x, y});
}

cudaError_t FillValues(cudaStream_t stream, float value, float* y, int64_t n) {
  return ForEach(stream, n, FillElement{value, y});
}

cudaError_t AddValues(cudaStream_t stream, const float* a, const float* b, float* y, int64_t n) {
  return ForEach(stream, n, AddElement{a, b, y});
}

cudaError_t SubtractValues(
    cudaStream_t stream, const float* a, const float* b, float* y, int64_t n) {
  return ForEach(stream, n, SubtractElement{a, b, y});
}

cudaError_t ScaleValues(cudaStream_t stream, float factor, float* x, int64_t n) {
  return ForEach(stream, n, ScaleElement{factor, x});
}

cudaError_t ScaleValuesBy(cudaStream_t stream, const float* factor, float* x, int64_t n) {
  return ForEach(stream, n, ScaleByElement{factor, x});
}

cudaError_t PackBf16Values(cudaStream_t stream, const float* x, uint16_t* y, int64_t n) {
  return ForEach(stream, n, PackElement{x, y});
}

cudaError_t ReluForward(cudaStream_t stream, const float* x, float* y, int64_t n) {
  return ForEach(stream, n, ReluElement{x, y});
}

cudaError_t ReluBackward(
    cudaStream_t stream, const float* y, const float* dy, float* dx, int64_t n) {
  return ForEach(stream, n, ReluGradient{y, dy, dx});
}

cudaError_t GeluForward(cudaStream_t stream, const float* x, float* y, int64_t n) {
  return ForEach(stream, n, GeluElement{x, y});
}

cudaError_t GeluBackward(
    cudaStream_t stream, const float* x, const float* dy, float* dx, int64_t n) {
  return ForEach(stream, n, GeluGradient{x, dy, dx});
}

cudaError_t ApplyDropout(
    cudaStream_t stream, const DropoutMask& mask, const float* x, float* y, int64_t n) {
  return ForEach(stream, n, DropoutElement{mask, x, y});
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
