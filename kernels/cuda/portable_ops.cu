#include <variant>

#include "kernels/cuda/portable_device.cuh"
#include "kernels/cuda/stream.h"
#include "ps/base/check.h"

namespace ps::kernels {

std::unique_ptr<Op> MakePortableCudaOp(const OpSpec& spec, CudaStream* stream) {
  return std::visit(
      [&]<typename Options>(const Options& options) -> std::unique_ptr<Op> {
        if constexpr (PortableOptions<Options>) {
          using PortableOp = typename Options::template On<CudaDevice>;
          return std::make_unique<PortableOp>(options, CudaDevice(stream));
        }
        PS_CHECK(false) << "an op with kernels of its own";
        return nullptr;
      },
      spec);
}

}  // namespace ps::kernels
