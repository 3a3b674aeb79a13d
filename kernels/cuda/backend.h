#pragma once

#include <cstdint>
#include <memory>

#include "kernels/backend.h"

namespace ps::kernels {

/// Who multiplies matrices. Convolutions are this folder's own kernels, but for those of 1x1
/// without stride or padding, which are products where there is cuBLASLt.
enum class GemmKind : uint8_t {
  kCublas,       // cuBLASLt by its own best guess, loaded when asked for
  kCublasTimed,  // the fastest of what it proposes, timed when a shape is prepared
  kOwn,          // a plain tiled kernel: where there is no cuBLASLt, and to compare with
};

/// The CUDA device of that number, with every op. All in f32. The same work gives the same bits in
/// all its streams as long as the backend lives; but for kCublasTimed, also in every process that
/// has a device of the same type and the same libraries. With kCublasTimed the order of sums is
/// fixed, too, but which one it is depends on times, so the last bits may differ between processes,
/// and between two devices of one machine.
/// Errors: kUnsupported when the build has no CUDA, there is no usable driver, device or cuBLASLt,
/// or the device is older than what was compiled; kInvalidArgument when there is no such number.
Result<std::unique_ptr<Backend>> MakeCudaBackend(int device, GemmKind gemm = GemmKind::kCublas);

}  // namespace ps::kernels
