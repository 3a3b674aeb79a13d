#pragma once

#include <cstdint>
#include <memory>

#include "kernels/backend.h"

namespace ps::kernels {

/// Who multiplies matrices. Convolutions are always this folder's own kernels.
enum class GemmKind : uint8_t {
  kCublas,  // cuBLASLt, loaded when asked for
  kOwn,     // a plain tiled kernel: where there is no cuBLASLt, and to compare with
};

/// The CUDA device of that number. All in f32; the same work gives the same bits on one device.
/// Every op is there.
/// Errors: kUnsupported when the build has no CUDA, there is no usable driver, device or cuBLASLt,
/// or the device is older than what was compiled; kInvalidArgument when there is no such number.
Result<std::unique_ptr<Backend>> MakeCudaBackend(int device, GemmKind gemm = GemmKind::kCublas);

}  // namespace ps::kernels
