#include "kernels/cuda/gemm/best_product.h"

#include <array>
#include <utility>

#include "kernels/cuda/stream.h"

namespace ps::kernels {
namespace {

class CublasBestProduct final : public BestProduct {
 public:
  CublasBestProduct(
      CudaStream* stream, const GemmShape& shape, std::array<std::unique_ptr<Memory>, 3> matrices)
      : stream_(stream), shape_(shape), matrices_(std::move(matrices)) {}

  void Run() override {
    stream_->Note(stream_->gemm()->Run(
        stream_->Enter(),
        shape_,
        matrices_[0]->data(),
        matrices_[1]->data(),
        nullptr,
        matrices_[2]->data(),
        false));
  }

 private:
  CudaStream* const stream_;
  const GemmShape shape_;
  const std::array<std::unique_ptr<Memory>, 3> matrices_;
};

}  // namespace

Result<std::unique_ptr<BestProduct>> MakeBestProduct(
    Backend* backend, Stream* stream, int64_t edge) {
  auto* const cuda = static_cast<CudaStream*>(stream);
  if (cuda->gemm() == nullptr || !cuda->gemm()->Takes(Precision::kBf16)) {
    return Status::Unsupported("cuBLASLt does not multiply bf16 here");
  }
  const GemmShape shape{
      .m = edge,
      .n = edge,
      .k = edge,
      .transpose_b = true,
      .precision = Precision::kBf16,
      .bf16_a = true,
      .bf16_b = true,
      .bf16_c = true};
  std::array<std::unique_ptr<Memory>, 3> matrices;
  for (std::unique_ptr<Memory>& matrix : matrices) {
    const int64_t floats = (edge * edge + 1) / 2;
    PS_ASSIGN(matrix, backend->AllocateDevice(sizeof(float) * static_cast<size_t>(floats)));
    stream->Fill(1, matrix->floats(), floats);
  }
  PS_TRY(cuda->gemm()->Prepare(cuda->Enter(), shape));
  return std::unique_ptr<BestProduct>(
      std::make_unique<CublasBestProduct>(cuda, shape, std::move(matrices)));
}

}  // namespace ps::kernels
