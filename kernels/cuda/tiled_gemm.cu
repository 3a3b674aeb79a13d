#include "kernels/cuda/dense_factors.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/product.cuh"

namespace ps::kernels {
namespace {

using Size = Tile64x64;

template <Precision precision, typename A, typename B>
__global__ void __launch_bounds__(Size::kThreads)
    GemmKernel(GemmShape shape, A a, B b, const float* bias, float* c) {
  Product<precision, Size>(
      static_cast<int64_t>(blockIdx.x) * Size::kRows,
      static_cast<int64_t>(blockIdx.y) * Size::kColumns,
      0,
      shape.k,
      a,
      b,
      [&](int64_t row) {
        float* const to = row < shape.m ? c + row * shape.n : nullptr;
        return [to, shape, bias](int64_t column, float sum) {
          if (to != nullptr && column < shape.n) {
            to[column] = Activated(shape.activation, shape.bias ? sum + bias[column] : sum);
          }
        };
      });
}

template <typename A, typename B>
cudaError_t Run(
    cudaStream_t stream,
    const GemmShape& shape,
    const A& a,
    const B& b,
    const float* bias,
    float* c) {
  return Launch(
      stream,
      dim3(
          static_cast<unsigned>(DivideUp(shape.m, Size::kRows)),
          static_cast<unsigned>(DivideUp(shape.n, Size::kColumns))),
      dim3(Size::kThreads),
      shape.precision == Precision::kBf16 ? &GemmKernel<Precision::kBf16, A, B>
                                          : &GemmKernel<Precision::kF32, A, B>,
      shape,
      a,
      b,
      bias,
      c);
}

}  // namespace

cudaError_t TiledGemm(
    cudaStream_t stream,
    const GemmShape& shape,
    const float* a,
    const float* b,
    const float* bias,
    float* c) {
  const auto with_b = [&](const auto& left) {
    return shape.transpose_b
               ? Run(stream, shape, left, DenseAlongDepth(b, shape.n, shape.k), bias, c)
               : Run(stream, shape, left, DenseAlongLines(b, shape.n, shape.k), bias, c);
  };
  return shape.transpose_a ? with_b(DenseAlongLines(a, shape.m, shape.k))
                           : with_b(DenseAlongDepth(a, shape.m, shape.k));
}

}  // namespace ps::kernels
