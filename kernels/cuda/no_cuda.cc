#include "kernels/cuda/devices.h"

namespace ps::kernels {

Result<std::vector<DeviceInfo>> ListCudaDevices() {
  return Status::Unsupported("this build has no CUDA; configure with the preset cuda");
}

}  // namespace ps::kernels
