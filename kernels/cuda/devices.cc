#include "kernels/cuda/devices.h"

#include <cuda_runtime_api.h>
#include <fmt/core.h>

namespace ps::kernels {
namespace {

std::string VersionName(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Why a call that only looks at devices failed: this machine has none that can be used.
Status NoUsableDevice(cudaError_t error) {
  // Without this the next unrelated call would report the error again.
  static_cast<void>(cudaGetLastError());
  int driver = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  if (error == cudaErrorInsufficientDriver && driver > 0) {
    return Status::Unsupported(fmt::format(
        "the NVIDIA driver is too old: it knows CUDA {}, and this build needs {}",
        VersionName(driver),
        VersionName(CUDART_VERSION)));
  }
  if (driver == 0) {
    return Status::Unsupported("this machine has no NVIDIA driver");
  }
  if (error == cudaErrorNoDevice) {
    return Status::Unsupported("the NVIDIA driver finds no device");
  }
  return Status::Unsupported(fmt::format(
      "no CUDA device can be used: {} (cuda error {})",
      cudaGetErrorString(error),
      static_cast<int>(error)));
}

}  // namespace

Result<std::vector<DeviceInfo>> ListCudaDevices() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return NoUsableDevice(error);
  }
  std::vector<DeviceInfo> devices;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, index);
        error != cudaSuccess) {
      return NoUsableDevice(error);
    }
    devices.push_back({
        .index = index,
        .name = properties.name,
        .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
        .compute_major = properties.major,
        .compute_minor = properties.minor,
    });
  }
  if (devices.empty()) {
    return NoUsableDevice(cudaErrorNoDevice);
  }
  return devices;
}

}  // namespace ps::kernels
