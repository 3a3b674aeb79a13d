#include "worker/device.h"

#include <fmt/core.h>

#include <utility>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/devices.h"

namespace ps::worker {
namespace {

Device Cpu(std::string note) {
  return {kernels::MakeCpuBackend(), "cpu", std::move(note)};
}

Result<Device> OpenCuda(const proto::DeviceChoice& choice, WorkerId seat) {
  PS_ASSIGN(const std::vector<kernels::DeviceInfo> devices, kernels::ListCudaDevices());
  const uint32_t number =
      choice.number.value_or(seat.value % static_cast<uint32_t>(devices.size()));
  Device device;
  device.name = fmt::format("cuda:{}", number);
  const int index = static_cast<int>(number);
  Result<std::unique_ptr<kernels::Backend>> backend = kernels::MakeCudaBackend(index);
  if (backend.status().code() == StatusCode::kUnsupported) {
    device.note = fmt::format("{}; slower kernels of our own multiply", backend.status().message());
    backend = kernels::MakeCudaBackend(index, kernels::GemmKind::kOwn);
  }
  PS_TRY(backend.status());
  device.backend = std::move(backend).value();
  return device;
}

}  // namespace

Result<Device> OpenDevice(const proto::DeviceChoice& choice, WorkerId seat) {
  if (choice.kind == proto::DeviceKind::kCpu) {
    return Cpu("");
  }
  Result<Device> cuda = OpenCuda(choice, seat);
  if (cuda.ok()) {
    return cuda;
  }
  const Status& why = cuda.status();
  if (choice.kind == proto::DeviceKind::kAuto) {
    return Cpu(fmt::format("{}; the CPU computes", why.message()));
  }
  return Status(
      why.code(),
      fmt::format(
          "no CUDA device for this worker: {}; set \"device\": \"auto\" or \"cpu\" in its group of "
          "the job file, or give ps_worker --device",
          why.message()));
}

}  // namespace ps::worker
