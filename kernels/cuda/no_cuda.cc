#include "kernels/cuda/backend.h"
#include "kernels/cuda/devices.h"
#include "kernels/cuda/gemm/best_product.h"

namespace ps::kernels {
namespace {

Status NoCuda() {
  return Status::Unsupported("this build has no CUDA; configure with the preset cuda");
}

}  // namespace

Result<std::vector<DeviceInfo>> ListCudaDevices() {
  return NoCuda();
}

Result<std::unique_ptr<Backend>> MakeCudaBackend(int /*device*/, GemmKind /*gemm*/) {
  return NoCuda();
}

Result<std::unique_ptr<BestProduct>> MakeBestProduct(
    Backend* /*backend*/, Stream* /*stream*/, int64_t /*edge*/) {
  return NoCuda();
}

}  // namespace ps::kernels
