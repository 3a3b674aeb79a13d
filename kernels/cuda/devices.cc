#include "kernels/cuda/devices.h"

#include <cuda_runtime_api.h>

namespace ps::kernels {
namespace {

/// What a call that only looks at devices can report: an absent or too old driver (35), no device
/// (100), or anything else, which all leave this machine without a usable one.
Status NoUsableDevice(cudaError_t error) {
  // Without this the next unrelated call would report the error again.
  static_cast<void>(cudaGetLastError());
  return Status::Unsupported(
      std::string("no usable device: ") + cudaGetErrorString(error) + " (cuda error " +
      std::to_string(static_cast<int>(error)) + ")");
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
