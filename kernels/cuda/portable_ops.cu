#include <utility>
#include <variant>

#include "kernels/cuda/portable_device.cuh"
#include "kernels/cuda/stream.h"
#include "ps/base/check.h"

namespace ps::kernels {
namespace {

/// Null when the spec has other options.
template <typename Options>
std::unique_ptr<Op> MakeIf(const OpSpec& spec, CudaStream* stream) {
  if constexpr (PortableOptions<Options>) {
    if (const auto* const options = std::get_if<Options>(&spec)) {
      using PortableOp = typename Options::template On<CudaDevice>;
      return std::make_unique<PortableOp>(*options, CudaDevice(stream));
    }
  }
  return nullptr;
}

/// Not by std::visit: that is constexpr, so clang compiles the kernels that it reaches at once, and
/// nvcc's stubs of kernels come at the end of the file.
template <typename... Options>
std::unique_ptr<Op> MakeAny(const std::variant<Options...>& spec, CudaStream* stream) {
  std::unique_ptr<Op> op;
  ((op = op != nullptr ? std::move(op) : MakeIf<Options>(spec, stream)), ...);
  return op;
}

}  // namespace

std::unique_ptr<Op> MakePortableCudaOp(const OpSpec& spec, CudaStream* stream) {
  std::unique_ptr<Op> op = MakeAny(spec, stream);
  PS_CHECK(op != nullptr) << "an op with kernels of its own";
  return op;
}

}  // namespace ps::kernels
