#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/dense_factors.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/product.cuh"

namespace ps::kernels {
namespace {

using Size = Tile64x64;

/// The shape's ldc is the distance of rows here.
template <Precision precision, typename A, typename B>
__global__ void __launch_bounds__(Size::kThreads)
    GemmKernel(GemmShape shape, A a, B b, const float* bias, void* c) {
  Product<precision, Size>(
      static_cast<int64_t>(blockIdx.x) * Size::kRows,
      static_cast<int64_t>(blockIdx.y) * Size::kColumns,
      0,
      shape.k,
      a,
      b,
      [&](int64_t row) {
        const int64_t from = row < shape.m ? row * shape.ldc : -1;
        return [from, shape, bias, c](int64_t column, float sum) {
          if (from < 0 || column >= shape.n) {
            return;
          }
          if (shape.bias) {
            sum += shape.bf16_c ? Rounded<Precision::kBf16>(bias[column]) : bias[column];
          }
          sum = Activated(shape.activation, sum);
          if (shape.bf16_c) {
            static_cast<uint16_t*>(c)[from + column] = ToBf16(sum);
          } else {
            static_cast<float*>(c)[from + column] = sum;
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
    void* c) {
  GemmShape told = shape;
  told.ldc = shape.pitch_c();
  return Launch(
      stream,
      dim3(
          static_cast<unsigned>(DivideUp(shape.m, Size::kRows)),
          static_cast<unsigned>(DivideUp(shape.n, Size::kColumns))),
      dim3(Size::kThreads),
      shape.precision == Precision::kBf16 ? &GemmKernel<Precision::kBf16, A, B>
                                          : &GemmKernel<Precision::kF32, A, B>,
      told,
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
    void* c) {
  const auto with_b = [&](const auto& left) {
    const int64_t pitch = shape.pitch_b();
    return shape.transpose_b
               ? Run(stream, shape, left, PitchedAlongDepth(b, shape.n, shape.k, pitch), bias, c)
               : Run(stream, shape, left, PitchedAlongLines(b, shape.n, shape.k, pitch), bias, c);
  };
  const int64_t pitch = shape.pitch_a();
  return shape.transpose_a ? with_b(PitchedAlongLines(a, shape.m, shape.k, pitch))
                           : with_b(PitchedAlongDepth(a, shape.m, shape.k, pitch));
}

}  // namespace ps::kernels
