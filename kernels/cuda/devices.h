#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ps/base/status.h"

namespace ps::kernels {

struct DeviceInfo {
  int index = 0;
  std::string name;
  int64_t memory_bytes = 0;
  int compute_major = 0;
  int compute_minor = 0;
};

/// The CUDA devices that this process may use, at least one.
/// Errors: kUnsupported when the build has no CUDA, or when there is no usable driver or device.
Result<std::vector<DeviceInfo>> ListCudaDevices();

}  // namespace ps::kernels
