#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/product.cuh"

namespace ps::kernels {
namespace {

struct MatrixA {
  using Row = int64_t;
  using Depth = int64_t;

  __device__ Row AtRow(int64_t row) const { return row; }

  __device__ Depth AtDepth(int64_t k) const { return k; }

  __device__ float Load(Row row, Depth k) const {
    return shape.transpose_a ? a[k * shape.m + row] : a[row * shape.k + k];
  }

  GemmShape shape;
  const float* a;
};

struct MatrixB {
  using Column = int64_t;
  using Depth = int64_t;

  __device__ Column AtColumn(int64_t column) const { return column; }

  __device__ Depth AtDepth(int64_t k) const { return k; }

  __device__ float Load(Depth k, Column column) const {
    return shape.transpose_b ? b[column * shape.k + k] : b[k * shape.n + column];
  }

  GemmShape shape;
  const float* b;
};

struct StoreMatrix {
  __device__ void operator()(int64_t row, int64_t column, float sum) const {
    c[row * n + column] = Activated(activation, bias == nullptr ? sum : sum + bias[column]);
  }

  int64_t n;
  const float* bias;
  Activation activation;
  float* c;
};

template <Precision precision>
__global__ void __launch_bounds__(kProductThreads)
    GemmKernel(GemmShape shape, MatrixA a, MatrixB b, StoreMatrix store) {
  Product<precision>(shape.m, shape.n, 0, shape.k, a, b, store);
}

}  // namespace

cudaError_t TiledGemm(
    cudaStream_t stream,
    const GemmShape& shape,
    const float* a,
    const float* b,
    const float* bias,
    float* c) {
  return Launch(
      stream,
      ProductGrid(shape.m, shape.n, 1),
      dim3(kProductThreads),
      shape.precision == Precision::kBf16 ? &GemmKernel<Precision::kBf16>
                                          : &GemmKernel<Precision::kF32>,
      shape,
      MatrixA{shape, a},
      MatrixB{shape, b},
      StoreMatrix{shape.n, shape.bias ? bias : nullptr, shape.activation, c});
}

}  // namespace ps::kernels
